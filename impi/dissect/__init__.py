"""A decoder of the wire that shares nothing with the implementation.

Written from the clauses of IMPI 0.0 alone; imports only :mod:`impi.errors`, so that a mistake in
the codec cannot hide itself here. :func:`dissect` takes the captures of one job (pcap octets) to a
:class:`Dissection`; :func:`timeline` writes that as lines of text. :func:`observe` and
:func:`observe_streams` take the traces of any number of jobs to :class:`ObservedJob`, and
:func:`records` lists them octet by octet. ``impi.lua`` beside this file is Wireshark's dissector.
"""

from __future__ import annotations

from impi.dissect.breaches import EARLY_CLOSE, OWED_PROTOACK, Breach, breaches
from impi.dissect.capture import Dissection, dissect, interpret
from impi.dissect.host_channel import (
    PACKET_TYPES,
    Channel,
    Crossed,
    Packet,
    carried,
    decode_channel,
    messages,
    unpack_packet,
)
from impi.dissect.job_finder import Observation, ObservedJob, observe
from impi.dissect.meetings import meetings
from impi.dissect.participants import Layout, WireHost, WireProc, show_address
from impi.dissect.pcap import Datagram, Segment, read_pcap
from impi.dissect.pending import Credit, Sent, Standing, standing
from impi.dissect.problem import Problem
from impi.dissect.raw import StreamName, name_stream, observe_streams
from impi.dissect.record_list import Record, records
from impi.dissect.start_rules import UNNUMBERED
from impi.dissect.startup import Conversation, Note, decode_startup, losses_told
from impi.dissect.tcp import Connection, Stream, reassemble
from impi.dissect.timeline import Event, events, timeline
from impi.dissect.window_access import ACCESS_TAG, ANSWER_TAG, DATA_TAG, Access, read_access

__all__ = [
    "ACCESS_TAG",
    "ANSWER_TAG",
    "DATA_TAG",
    "EARLY_CLOSE",
    "OWED_PROTOACK",
    "PACKET_TYPES",
    "UNNUMBERED",
    "Access",
    "Breach",
    "Channel",
    "Connection",
    "Conversation",
    "Credit",
    "Crossed",
    "Datagram",
    "Dissection",
    "Event",
    "Layout",
    "Note",
    "Observation",
    "ObservedJob",
    "Packet",
    "Problem",
    "Record",
    "Segment",
    "Sent",
    "Standing",
    "Stream",
    "StreamName",
    "WireHost",
    "WireProc",
    "breaches",
    "carried",
    "decode_channel",
    "decode_startup",
    "dissect",
    "events",
    "interpret",
    "losses_told",
    "meetings",
    "messages",
    "name_stream",
    "observe",
    "observe_streams",
    "read_access",
    "read_pcap",
    "reassemble",
    "records",
    "show_address",
    "standing",
    "timeline",
    "unpack_packet",
]
