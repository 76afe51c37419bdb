"""The operations of chapter 4, a module each, with the messages and tags that it fixes."""
