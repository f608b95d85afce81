# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""An exception for each error code; import them from telesto.protocol.errors."""

from __future__ import annotations

from telesto.protocol.enums import ErrorClass, ErrorCode
from telesto.protocol.error_base import ErrorInfo, FatalError, InDoubtError, RejectedError, RetryableError

__all__ = [
    "ERRORS",
    "AlreadySubscribedError",
    "AuthenticationFailedError",
    "CallCanceledError",
    "ClientModePermissionError",
    "ClientNameNotUniqueError",
    "ClientNotExistingError",
    "ConnectionLostError",
    "ConnectionsExhaustedError",
    "ConsumerInactiveError",
    "ConsumerNotExistingError",
    "ConsumerSlowError",
    "DatabaseUnavailableError",
    "DiskFullError",
    "FrameTooLargeError",
    "InternalError",
    "InvalidParameterError",
    "LeaseLostError",
    "MalformedPacketError",
    "MessageNotExistingError",
    "MessageTooLargeError",
    "NoActiveQueuesExistingError",
    "NoMessagesInQueueError",
    "NoMessagesRetrievedError",
    "NoQueuesExistingError",
    "NotAuthenticatedError",
    "NotIdentifiedError",
    "NotSubscribedError",
    "NumberRepeatedError",
    "OverloadedError",
    "PermissionDeniedError",
    "PositionUnknownError",
    "QueueFullError",
    "QueueNameNotUniqueError",
    "QueueNotExistingError",
    "QuotaExceededError",
    "SequenceGapError",
    "SessionFencedError",
    "ShuttingDownError",
    "StandbyUnavailableError",
    "SubscriptionDroppedError",
    "TakeoverBusyError",
    "TooManyConnectionsError",
    "TooManyUnconfirmedError",
    "TopicInUseError",
    "TopicNotExistingError",
    "UnexpectedPacketError",
    "UniqueConstraintError",
    "UnknownMethodError",
    "UnsupportedFieldError",
    "UnsupportedVersionError",
]


class InternalError(InDoubtError):
    """The middleware failed in a way it does not know; its log tells more."""

    code = ErrorCode.INTERNAL_ERROR


class UnexpectedPacketError(RejectedError):
    """The packet is not allowed in this state of the connection, or only the server sends it."""

    code = ErrorCode.UNEXPECTED_PACKET


class ConnectionLostError(InDoubtError):
    """The connection to the database or to the middleware was lost while the request was under way."""

    code = ErrorCode.IO_ERROR


class UniqueConstraintError(RejectedError):
    """Something with this identity exists already."""

    code = ErrorCode.UNIQUE_CONSTRAINT


class QueueNameNotUniqueError(RejectedError):
    """A queue of this name exists already."""

    code = ErrorCode.QUEUE_NAME_NOT_UNIQUE


class ClientNotExistingError(RejectedError):
    """There is no such client."""

    code = ErrorCode.CLIENT_NOT_EXISTING


class ClientNameNotUniqueError(RejectedError):
    """A client of this name exists already."""

    code = ErrorCode.CLIENT_NAME_NOT_UNIQUE


class QueueNotExistingError(RejectedError):
    """There is no such queue, or the user may not see it, or it was deleted meanwhile."""

    code = ErrorCode.QUEUE_NOT_EXISTING


class NoActiveQueuesExistingError(RejectedError):
    """Reserved: an empty list is an answer, not an error."""

    code = ErrorCode.NO_ACTIVE_QUEUES_EXISTING


class NoQueuesExistingError(RejectedError):
    """Reserved: an empty list is an answer, not an error."""

    code = ErrorCode.NO_QUEUES_EXISTING


class NoMessagesInQueueError(RejectedError):
    """Reserved: an empty list is an answer, not an error."""

    code = ErrorCode.NO_MESSAGES_IN_QUEUE


class NoMessagesRetrievedError(RejectedError):
    """Reserved: an empty list is an answer, not an error."""

    code = ErrorCode.NO_MESSAGES_RETRIEVED


class InvalidParameterError(RejectedError):
    """A parameter is missing or outside its range; the details name it and its value."""

    code = ErrorCode.INVALID_PARAMETER


class ClientModePermissionError(RejectedError):
    """A READ_ONLY client may not do this, or the client has another mode than it was to have."""

    code = ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION


class UnsupportedVersionError(FatalError):
    """The middleware does not speak this major version; the details name those it speaks."""

    code = ErrorCode.UNSUPPORTED_VERSION


class UnsupportedFieldError(RejectedError):
    """A tagged field that must be understood is not known here."""

    code = ErrorCode.UNSUPPORTED_FIELD


class UnknownMethodError(RejectedError):
    """There is no packet with this method id."""

    code = ErrorCode.UNKNOWN_METHOD


class MalformedPacketError(RejectedError):
    """The payload does not have the fields of its packet."""

    code = ErrorCode.MALFORMED_PACKET


class FrameTooLargeError(FatalError):
    """The declared length is beyond the limit, or below that of a frame's header."""

    code = ErrorCode.FRAME_TOO_LARGE


class NotIdentifiedError(RejectedError):
    """The request needs a client; register or identify first."""

    code = ErrorCode.NOT_IDENTIFIED


class SessionFencedError(FatalError):
    """The client has opened another session; this one is over. Nothing was done."""

    code = ErrorCode.SESSION_FENCED


class TooManyUnconfirmedError(RetryableError):
    """Too many numbered requests are unconfirmed; confirm some first."""

    code = ErrorCode.TOO_MANY_UNCONFIRMED


class SequenceGapError(RejectedError):
    """The sequence is not the next one, which `number` names in the protocol and the related id in SQL."""

    code = ErrorCode.SEQUENCE_GAP


class OverloadedError(RetryableError):
    """The middleware has as much under way as it may, or this client more than its share; try again later.
    As FATAL, on its own: the connection keeps what others need, or there is no space for the frame that it
    has begun."""

    code = ErrorCode.OVERLOADED


class DatabaseUnavailableError(RetryableError):
    """The database cannot be reached; nothing was sent to it."""

    code = ErrorCode.DATABASE_UNAVAILABLE


class QueueFullError(RejectedError):
    """The queue holds as many messages as it may."""

    code = ErrorCode.QUEUE_FULL


class MessageTooLargeError(RejectedError):
    """The message is larger than what is allowed or can be received; the related id names it."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class LeaseLostError(RejectedError):
    """The delivery was answered already, or its lease or its connection was lost."""

    code = ErrorCode.LEASE_LOST


class AlreadySubscribedError(RejectedError):
    """The client has this subscription already."""

    code = ErrorCode.ALREADY_SUBSCRIBED


class NotSubscribedError(RejectedError):
    """The client has no such subscription."""

    code = ErrorCode.NOT_SUBSCRIBED


class TopicNotExistingError(RejectedError):
    """There is no such topic."""

    code = ErrorCode.TOPIC_NOT_EXISTING


class AuthenticationFailedError(FatalError):
    """The login failed. The answer is the same whatever was wrong: the user, the password, the
    certificate, the token or the exchange. The connection of a user that was disabled or deleted ends with
    it, too."""

    code = ErrorCode.AUTHENTICATION_FAILED


class PermissionDeniedError(RejectedError):
    """The user that the connection has logged in as may not do this; nothing was done."""

    code = ErrorCode.PERMISSION_DENIED


class ShuttingDownError(RetryableError):
    """The middleware is about to stop; go to another one."""

    code = ErrorCode.SHUTTING_DOWN


class TooManyConnectionsError(FatalError):
    """The middleware has as many connections as it may; go to another one."""

    code = ErrorCode.TOO_MANY_CONNECTIONS


class TakeoverBusyError(RetryableError):
    """A transaction of the client's earlier session is still running; try again."""

    code = ErrorCode.TAKEOVER_BUSY


class NumberRepeatedError(RejectedError):
    """The number is not above the last one that the connection has sent."""

    code = ErrorCode.NUMBER_REPEATED


class PositionUnknownError(RejectedError):
    """The number that the client says to have lies beyond the topic's end or before its subscription; the
    related id is the topic's last number."""

    code = ErrorCode.POSITION_UNKNOWN


class SubscriptionDroppedError(RejectedError):
    """The subscription was further behind than its limit and has been dropped; subscribe again to begin
    anew."""

    code = ErrorCode.SUBSCRIPTION_DROPPED


class TopicInUseError(RejectedError):
    """Somebody subscribes to the topic, so it cannot be deleted."""

    code = ErrorCode.TOPIC_IN_USE


class ConsumerNotExistingError(RejectedError):
    """There is no such consumer (any more); join again."""

    code = ErrorCode.CONSUMER_NOT_EXISTING


class ConsumerInactiveError(RejectedError):
    """The consumer failed as often in a row as its queue allows and has ended; it gets messages again when
    it joins again."""

    code = ErrorCode.CONSUMER_INACTIVE


class ConsumerSlowError(RejectedError):
    """The consumer has answered late too often, or fails everything: others get its partitions for some
    time. It stays a member. Only LeaseLost has this code."""

    code = ErrorCode.CONSUMER_SLOW


class MessageNotExistingError(RejectedError):
    """Nothing is known of the message: it never was, or its queue keeps no history, or the time for that
    is over."""

    code = ErrorCode.MESSAGE_NOT_EXISTING


class StandbyUnavailableError(RetryableError):
    """The database's synchronous standby confirms nothing at present, so that nothing new is begun;
    nothing was done. Another middleware has the same database."""

    code = ErrorCode.STANDBY_UNAVAILABLE


class DiskFullError(RetryableError):
    """The database's disk is full, or nearly so: puts are refused, so that reads, acknowledgements and
    purges can go on; nothing was done. It ends by itself when there is space. Another middleware has the same
    database."""

    code = ErrorCode.DISK_FULL


class CallCanceledError(RetryableError):
    """The database canceled the call, because it took longer than the service allows or an operator asked
    for it; nothing was done."""

    code = ErrorCode.CALL_CANCELED


class ConnectionsExhaustedError(RetryableError):
    """The database has no connection left for this middleware; nothing was done. Another middleware may
    have one."""

    code = ErrorCode.CONNECTIONS_EXHAUSTED


class NotAuthenticatedError(RejectedError):
    """The service asks for a login, and this connection has not logged in. With the class FATAL: it asks
    for one since the connection was opened."""

    code = ErrorCode.NOT_AUTHENTICATED


class QuotaExceededError(RejectedError):
    """The user has as many clients, queues or topics as its quota allows, or has stored as much; it must
    delete some, or get a larger quota."""

    code = ErrorCode.QUOTA_EXCEEDED


#: What the specification says about each code, by its number.
ERRORS: dict[int, ErrorInfo] = {
    0: ErrorInfo(
        code=ErrorCode.INTERNAL_ERROR,
        name="INTERNAL_ERROR",
        error_class=ErrorClass.IN_DOUBT,
        sqlstate="TL000",
        exception=InternalError,
        doc=("The middleware failed in a way it does not know; its log tells more."),
    ),
    1: ErrorInfo(
        code=ErrorCode.UNEXPECTED_PACKET,
        name="UNEXPECTED_PACKET",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL001",
        exception=UnexpectedPacketError,
        doc=("The packet is not allowed in this state of the connection, or only the server sends it."),
    ),
    2: ErrorInfo(
        code=ErrorCode.IO_ERROR,
        name="IO_ERROR",
        error_class=ErrorClass.IN_DOUBT,
        sqlstate="TL002",
        exception=ConnectionLostError,
        doc=("The connection to the database or to the middleware was lost while the request was under way."),
    ),
    3: ErrorInfo(
        code=ErrorCode.UNIQUE_CONSTRAINT,
        name="UNIQUE_CONSTRAINT",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL003",
        exception=UniqueConstraintError,
        doc=("Something with this identity exists already."),
    ),
    4: ErrorInfo(
        code=ErrorCode.QUEUE_NAME_NOT_UNIQUE,
        name="QUEUE_NAME_NOT_UNIQUE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL004",
        exception=QueueNameNotUniqueError,
        doc=("A queue of this name exists already."),
    ),
    5: ErrorInfo(
        code=ErrorCode.CLIENT_NOT_EXISTING,
        name="CLIENT_NOT_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL005",
        exception=ClientNotExistingError,
        doc=("There is no such client."),
    ),
    6: ErrorInfo(
        code=ErrorCode.CLIENT_NAME_NOT_UNIQUE,
        name="CLIENT_NAME_NOT_UNIQUE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL006",
        exception=ClientNameNotUniqueError,
        doc=("A client of this name exists already."),
    ),
    7: ErrorInfo(
        code=ErrorCode.QUEUE_NOT_EXISTING,
        name="QUEUE_NOT_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL007",
        exception=QueueNotExistingError,
        doc=("There is no such queue, or the user may not see it, or it was deleted meanwhile."),
    ),
    8: ErrorInfo(
        code=ErrorCode.NO_ACTIVE_QUEUES_EXISTING,
        name="NO_ACTIVE_QUEUES_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL008",
        exception=NoActiveQueuesExistingError,
        doc=("Reserved: an empty list is an answer, not an error."),
    ),
    9: ErrorInfo(
        code=ErrorCode.NO_QUEUES_EXISTING,
        name="NO_QUEUES_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL009",
        exception=NoQueuesExistingError,
        doc=("Reserved: an empty list is an answer, not an error."),
    ),
    10: ErrorInfo(
        code=ErrorCode.NO_MESSAGES_IN_QUEUE,
        name="NO_MESSAGES_IN_QUEUE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL010",
        exception=NoMessagesInQueueError,
        doc=("Reserved: an empty list is an answer, not an error."),
    ),
    11: ErrorInfo(
        code=ErrorCode.NO_MESSAGES_RETRIEVED,
        name="NO_MESSAGES_RETRIEVED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL011",
        exception=NoMessagesRetrievedError,
        doc=("Reserved: an empty list is an answer, not an error."),
    ),
    12: ErrorInfo(
        code=ErrorCode.INVALID_PARAMETER,
        name="INVALID_PARAMETER",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL012",
        exception=InvalidParameterError,
        doc=("A parameter is missing or outside its range; the details name it and its value."),
    ),
    13: ErrorInfo(
        code=ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION,
        name="CLIENT_MODE_PERMISSION_VIOLATION",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL013",
        exception=ClientModePermissionError,
        doc=("A READ_ONLY client may not do this, or the client has another mode than it was to have."),
    ),
    14: ErrorInfo(
        code=ErrorCode.UNSUPPORTED_VERSION,
        name="UNSUPPORTED_VERSION",
        error_class=ErrorClass.FATAL,
        sqlstate="TL014",
        exception=UnsupportedVersionError,
        doc=("The middleware does not speak this major version; the details name those it speaks."),
    ),
    15: ErrorInfo(
        code=ErrorCode.UNSUPPORTED_FIELD,
        name="UNSUPPORTED_FIELD",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL015",
        exception=UnsupportedFieldError,
        doc=("A tagged field that must be understood is not known here."),
    ),
    16: ErrorInfo(
        code=ErrorCode.UNKNOWN_METHOD,
        name="UNKNOWN_METHOD",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL016",
        exception=UnknownMethodError,
        doc=("There is no packet with this method id."),
    ),
    17: ErrorInfo(
        code=ErrorCode.MALFORMED_PACKET,
        name="MALFORMED_PACKET",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL017",
        exception=MalformedPacketError,
        doc=("The payload does not have the fields of its packet."),
    ),
    18: ErrorInfo(
        code=ErrorCode.FRAME_TOO_LARGE,
        name="FRAME_TOO_LARGE",
        error_class=ErrorClass.FATAL,
        sqlstate="TL018",
        exception=FrameTooLargeError,
        doc=("The declared length is beyond the limit, or below that of a frame's header."),
    ),
    19: ErrorInfo(
        code=ErrorCode.NOT_IDENTIFIED,
        name="NOT_IDENTIFIED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL019",
        exception=NotIdentifiedError,
        doc=("The request needs a client; register or identify first."),
    ),
    20: ErrorInfo(
        code=ErrorCode.SESSION_FENCED,
        name="SESSION_FENCED",
        error_class=ErrorClass.FATAL,
        sqlstate="TL020",
        exception=SessionFencedError,
        doc=("The client has opened another session; this one is over. Nothing was done."),
    ),
    21: ErrorInfo(
        code=ErrorCode.TOO_MANY_UNCONFIRMED,
        name="TOO_MANY_UNCONFIRMED",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL021",
        exception=TooManyUnconfirmedError,
        doc=("Too many numbered requests are unconfirmed; confirm some first."),
    ),
    22: ErrorInfo(
        code=ErrorCode.SEQUENCE_GAP,
        name="SEQUENCE_GAP",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL022",
        exception=SequenceGapError,
        doc=(
            "The sequence is not the next one, which `number` names in the protocol and the related id "
            "in SQL."
        ),
    ),
    23: ErrorInfo(
        code=ErrorCode.OVERLOADED,
        name="OVERLOADED",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL023",
        exception=OverloadedError,
        doc=(
            "The middleware has as much under way as it may, or this client more than its share; try "
            "again later. As FATAL, on its own: the connection keeps what others need, or there is no "
            "space for the frame that it has begun."
        ),
    ),
    24: ErrorInfo(
        code=ErrorCode.DATABASE_UNAVAILABLE,
        name="DATABASE_UNAVAILABLE",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL024",
        exception=DatabaseUnavailableError,
        doc=("The database cannot be reached; nothing was sent to it."),
    ),
    25: ErrorInfo(
        code=ErrorCode.QUEUE_FULL,
        name="QUEUE_FULL",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL025",
        exception=QueueFullError,
        doc=("The queue holds as many messages as it may."),
    ),
    26: ErrorInfo(
        code=ErrorCode.MESSAGE_TOO_LARGE,
        name="MESSAGE_TOO_LARGE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL026",
        exception=MessageTooLargeError,
        doc=("The message is larger than what is allowed or can be received; the related id names it."),
    ),
    27: ErrorInfo(
        code=ErrorCode.LEASE_LOST,
        name="LEASE_LOST",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL027",
        exception=LeaseLostError,
        doc=("The delivery was answered already, or its lease or its connection was lost."),
    ),
    28: ErrorInfo(
        code=ErrorCode.ALREADY_SUBSCRIBED,
        name="ALREADY_SUBSCRIBED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL028",
        exception=AlreadySubscribedError,
        doc=("The client has this subscription already."),
    ),
    29: ErrorInfo(
        code=ErrorCode.NOT_SUBSCRIBED,
        name="NOT_SUBSCRIBED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL029",
        exception=NotSubscribedError,
        doc=("The client has no such subscription."),
    ),
    30: ErrorInfo(
        code=ErrorCode.TOPIC_NOT_EXISTING,
        name="TOPIC_NOT_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL030",
        exception=TopicNotExistingError,
        doc=("There is no such topic."),
    ),
    31: ErrorInfo(
        code=ErrorCode.AUTHENTICATION_FAILED,
        name="AUTHENTICATION_FAILED",
        error_class=ErrorClass.FATAL,
        sqlstate="TL031",
        exception=AuthenticationFailedError,
        doc=(
            "The login failed. The answer is the same whatever was wrong: the user, the password, the "
            "certificate, the token or the exchange. The connection of a user that was disabled or "
            "deleted ends with it, too."
        ),
    ),
    32: ErrorInfo(
        code=ErrorCode.PERMISSION_DENIED,
        name="PERMISSION_DENIED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL032",
        exception=PermissionDeniedError,
        doc=("The user that the connection has logged in as may not do this; nothing was done."),
    ),
    33: ErrorInfo(
        code=ErrorCode.SHUTTING_DOWN,
        name="SHUTTING_DOWN",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL033",
        exception=ShuttingDownError,
        doc=("The middleware is about to stop; go to another one."),
    ),
    34: ErrorInfo(
        code=ErrorCode.TOO_MANY_CONNECTIONS,
        name="TOO_MANY_CONNECTIONS",
        error_class=ErrorClass.FATAL,
        sqlstate="TL034",
        exception=TooManyConnectionsError,
        doc=("The middleware has as many connections as it may; go to another one."),
    ),
    35: ErrorInfo(
        code=ErrorCode.TAKEOVER_BUSY,
        name="TAKEOVER_BUSY",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL035",
        exception=TakeoverBusyError,
        doc=("A transaction of the client's earlier session is still running; try again."),
    ),
    36: ErrorInfo(
        code=ErrorCode.NUMBER_REPEATED,
        name="NUMBER_REPEATED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL036",
        exception=NumberRepeatedError,
        doc=("The number is not above the last one that the connection has sent."),
    ),
    40: ErrorInfo(
        code=ErrorCode.POSITION_UNKNOWN,
        name="POSITION_UNKNOWN",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL040",
        exception=PositionUnknownError,
        doc=(
            "The number that the client says to have lies beyond the topic's end or before its "
            "subscription; the related id is the topic's last number."
        ),
    ),
    41: ErrorInfo(
        code=ErrorCode.SUBSCRIPTION_DROPPED,
        name="SUBSCRIPTION_DROPPED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL041",
        exception=SubscriptionDroppedError,
        doc=(
            "The subscription was further behind than its limit and has been dropped; subscribe again "
            "to begin anew."
        ),
    ),
    42: ErrorInfo(
        code=ErrorCode.TOPIC_IN_USE,
        name="TOPIC_IN_USE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL042",
        exception=TopicInUseError,
        doc=("Somebody subscribes to the topic, so it cannot be deleted."),
    ),
    50: ErrorInfo(
        code=ErrorCode.CONSUMER_NOT_EXISTING,
        name="CONSUMER_NOT_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL050",
        exception=ConsumerNotExistingError,
        doc=("There is no such consumer (any more); join again."),
    ),
    54: ErrorInfo(
        code=ErrorCode.CONSUMER_INACTIVE,
        name="CONSUMER_INACTIVE",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL054",
        exception=ConsumerInactiveError,
        doc=(
            "The consumer failed as often in a row as its queue allows and has ended; it gets messages "
            "again when it joins again."
        ),
    ),
    55: ErrorInfo(
        code=ErrorCode.CONSUMER_SLOW,
        name="CONSUMER_SLOW",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL055",
        exception=ConsumerSlowError,
        doc=(
            "The consumer has answered late too often, or fails everything: others get its partitions "
            "for some time. It stays a member. Only LeaseLost has this code."
        ),
    ),
    64: ErrorInfo(
        code=ErrorCode.MESSAGE_NOT_EXISTING,
        name="MESSAGE_NOT_EXISTING",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL064",
        exception=MessageNotExistingError,
        doc=(
            "Nothing is known of the message: it never was, or its queue keeps no history, or the time "
            "for that is over."
        ),
    ),
    68: ErrorInfo(
        code=ErrorCode.STANDBY_UNAVAILABLE,
        name="STANDBY_UNAVAILABLE",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL068",
        exception=StandbyUnavailableError,
        doc=(
            "The database's synchronous standby confirms nothing at present, so that nothing new is "
            "begun; nothing was done. Another middleware has the same database."
        ),
    ),
    72: ErrorInfo(
        code=ErrorCode.DISK_FULL,
        name="DISK_FULL",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL072",
        exception=DiskFullError,
        doc=(
            "The database's disk is full, or nearly so: puts are refused, so that reads, "
            "acknowledgements and purges can go on; nothing was done. It ends by itself when there is "
            "space. Another middleware has the same database."
        ),
    ),
    73: ErrorInfo(
        code=ErrorCode.CALL_CANCELED,
        name="CALL_CANCELED",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL073",
        exception=CallCanceledError,
        doc=(
            "The database canceled the call, because it took longer than the service allows or an "
            "operator asked for it; nothing was done."
        ),
    ),
    74: ErrorInfo(
        code=ErrorCode.CONNECTIONS_EXHAUSTED,
        name="CONNECTIONS_EXHAUSTED",
        error_class=ErrorClass.RETRYABLE,
        sqlstate="TL074",
        exception=ConnectionsExhaustedError,
        doc=(
            "The database has no connection left for this middleware; nothing was done. Another "
            "middleware may have one."
        ),
    ),
    75: ErrorInfo(
        code=ErrorCode.NOT_AUTHENTICATED,
        name="NOT_AUTHENTICATED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL075",
        exception=NotAuthenticatedError,
        doc=(
            "The service asks for a login, and this connection has not logged in. With the class FATAL:"
            " it asks for one since the connection was opened."
        ),
    ),
    76: ErrorInfo(
        code=ErrorCode.QUOTA_EXCEEDED,
        name="QUOTA_EXCEEDED",
        error_class=ErrorClass.REJECTED,
        sqlstate="TL076",
        exception=QuotaExceededError,
        doc=(
            "The user has as many clients, queues or topics as its quota allows, or has stored as much;"
            " it must delete some, or get a larger quota."
        ),
    ),
}
