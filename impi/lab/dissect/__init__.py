"""A decoder of the wire that shares nothing with the implementation.

Written from the clauses of IMPI 0.0 alone; imports only :mod:`impi.base.errors`, so that a mistake
in the codec cannot hide itself here. :func:`dissect` takes the captures of one job (pcap octets) to
a :class:`Dissection`; :func:`timeline` writes that as lines of text. :func:`observe` and
:func:`observe_streams` take the traces of any number of jobs to :class:`ObservedJob`, and
:func:`records` lists them octet by octet. ``impi.lua`` beside this file is Wireshark's dissector.
"""

from __future__ import annotations

from impi.lab.dissect.decode.host_channel import (
    PACKET_TYPES,
    USED_FIELDS,
    Channel,
    Crossed,
    Packet,
    carried,
    decode_channel,
    messages,
    unpack_packet,
)
from impi.lab.dissect.decode.participants import (
    Layout,
    WireHost,
    WireProc,
    show_address,
)
from impi.lab.dissect.decode.start_rules import UNNUMBERED
from impi.lab.dissect.decode.startup import (
    Conversation,
    Note,
    decode_startup,
    losses_told,
)
from impi.lab.dissect.decode.window_access import (
    ACCESS_TAG,
    ANSWER_TAG,
    DATA_TAG,
    WindowAccess,
    read_access,
)
from impi.lab.dissect.jobs.breaches import EARLY_CLOSE, OWED_PROTOACK, Breach, breaches
from impi.lab.dissect.jobs.capture import Dissection, dissect, interpret
from impi.lab.dissect.jobs.job_finder import Observation, ObservedJob, observe
from impi.lab.dissect.jobs.meetings import meetings
from impi.lab.dissect.jobs.pending import Credit, Sent, Standing, standing
from impi.lab.dissect.jobs.raw import StreamName, name_stream, observe_streams
from impi.lab.dissect.show.record_list import Record, records
from impi.lab.dissect.show.timeline import Event, events, timeline
from impi.lab.dissect.streams.pcap import Datagram, Segment, read_pcap
from impi.lab.dissect.streams.problem import Problem
from impi.lab.dissect.streams.tcp import Connection, Stream, reassemble

__all__ = [
    "ACCESS_TAG",
    "ANSWER_TAG",
    "DATA_TAG",
    "EARLY_CLOSE",
    "OWED_PROTOACK",
    "PACKET_TYPES",
    "UNNUMBERED",
    "USED_FIELDS",
    "WindowAccess",
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
