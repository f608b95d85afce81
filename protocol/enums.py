# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""The enums of the protocol and the states of a connection."""

from __future__ import annotations

from enum import Enum, IntEnum


class ClientMode(IntEnum):
    """What a client may do."""

    #: Every request.
    FULL = 1

    #: Look up, list, browse, read, consume and acknowledge; neither put nor create nor delete.
    READ_ONLY = 2


class ReadMode(IntEnum):
    """Which message of a queue a read takes first."""

    #: The highest priority first, the oldest first among equals.
    PRIORITY = 1

    #: The oldest first, whatever its priority.
    TIME = 2


class SubscriptionState(IntEnum):
    """How a subscription stands to its limit."""

    #: Within its limit, or without one.
    ACTIVE = 1

    #: Further behind than its limit; it keeps all that it is owed.
    LAGGING = 2

    #: It was further behind than its limit and keeps nothing any more.
    DROPPED = 3


class HistoryMode(IntEnum):
    """What a queue keeps of its messages once they are over."""

    #: Nothing.
    NONE = 1

    #: All but the body.
    METADATA = 2

    #: The body too.
    FULL = 3


class MessageState(IntEnum):
    """Where a message is, or how it or one of its hand-overs ended."""

    #: It waits in its queue.
    READY = 1

    #: It waits in its queue for the time at which it can be read.
    DELAYED = 2

    #: A client has it and has not confirmed it.
    HANDED_OVER = 3

    #: A consumer has it and has not acknowledged it.
    LEASED = 4

    #: It is among the dead letters.
    DEAD_LETTER = 5

    #: The client that had read it has confirmed it.
    CONFIRMED = 6

    #: The consumer that had it has acknowledged it.
    ACKNOWLEDGED = 7

    #: It was handed over without a record (number 0), and over with that.
    UNRECORDED = 8

    #: It came back to its queue from the client that had it.
    RETURNED = 9

    #: It was purged from its queue.
    PURGED = 10

    #: It expired.
    EXPIRED = 11

    #: It went to the dead letters.
    DEAD = 12

    #: It went with its queue.
    DELETED = 13

    #: It was cancelled before a client got it.
    CANCELLED = 14


class ErrorClass(IntEnum):
    """What holds after an error."""

    #: Nothing was done; the same request will be refused again.
    REJECTED = 1

    #: Nothing was done; the same request may succeed later.
    RETRYABLE = 2

    #: The request may have been done; a takeover tells.
    IN_DOUBT = 3

    #: This connection is over.
    FATAL = 4

    def __str__(self) -> str:
        """Returns the name, which says more to people than the number."""
        return self.name


class ErrorCode(IntEnum):
    """The error codes; telesto.protocol.errors has an exception for each."""

    #: The middleware failed in a way it does not know; its log tells more.
    INTERNAL_ERROR = 0

    #: The packet is not allowed in this state of the connection, or only the server sends it.
    UNEXPECTED_PACKET = 1

    #: The connection to the database or to the middleware was lost while the request was under way.
    IO_ERROR = 2

    #: Something with this identity exists already.
    UNIQUE_CONSTRAINT = 3

    #: A queue of this name exists already.
    QUEUE_NAME_NOT_UNIQUE = 4

    #: There is no such client.
    CLIENT_NOT_EXISTING = 5

    #: A client of this name exists already.
    CLIENT_NAME_NOT_UNIQUE = 6

    #: There is no such queue, or the user may not see it, or it was deleted meanwhile.
    QUEUE_NOT_EXISTING = 7

    #: Reserved: an empty list is an answer, not an error.
    NO_ACTIVE_QUEUES_EXISTING = 8

    #: Reserved: an empty list is an answer, not an error.
    NO_QUEUES_EXISTING = 9

    #: Reserved: an empty list is an answer, not an error.
    NO_MESSAGES_IN_QUEUE = 10

    #: Reserved: an empty list is an answer, not an error.
    NO_MESSAGES_RETRIEVED = 11

    #: A parameter is missing or outside its range; the details name it and its value.
    INVALID_PARAMETER = 12

    #: A READ_ONLY client may not do this, or the client has another mode than it was to have.
    CLIENT_MODE_PERMISSION_VIOLATION = 13

    #: The middleware does not speak this major version; the details name those it speaks.
    UNSUPPORTED_VERSION = 14

    #: A tagged field that must be understood is not known here.
    UNSUPPORTED_FIELD = 15

    #: There is no packet with this method id.
    UNKNOWN_METHOD = 16

    #: The payload does not have the fields of its packet.
    MALFORMED_PACKET = 17

    #: The declared length is beyond the limit, or below that of a frame's header.
    FRAME_TOO_LARGE = 18

    #: The request needs a client; register or identify first.
    NOT_IDENTIFIED = 19

    #: The client has opened another session; this one is over. Nothing was done.
    SESSION_FENCED = 20

    #: Too many numbered requests are unconfirmed; confirm some first.
    TOO_MANY_UNCONFIRMED = 21

    #: The sequence is not the next one, which `number` names in the protocol and the related id in SQL.
    SEQUENCE_GAP = 22

    #: The middleware has as much under way as it may, or this client more than its share; try again later. As
    #: FATAL, on its own: the connection keeps what others need, or there is no space for the frame that it
    #: has begun.
    OVERLOADED = 23

    #: The database cannot be reached; nothing was sent to it.
    DATABASE_UNAVAILABLE = 24

    #: The queue holds as many messages as it may.
    QUEUE_FULL = 25

    #: The message is larger than what is allowed or can be received; the related id names it.
    MESSAGE_TOO_LARGE = 26

    #: The delivery was answered already, or its lease or its connection was lost.
    LEASE_LOST = 27

    #: The client has this subscription already.
    ALREADY_SUBSCRIBED = 28

    #: The client has no such subscription.
    NOT_SUBSCRIBED = 29

    #: There is no such topic.
    TOPIC_NOT_EXISTING = 30

    #: The login failed. The answer is the same whatever was wrong: the user, the password, the certificate,
    #: the token or the exchange. The connection of a user that was disabled or deleted ends with it, too.
    AUTHENTICATION_FAILED = 31

    #: The user that the connection has logged in as may not do this; nothing was done.
    PERMISSION_DENIED = 32

    #: The middleware is about to stop; go to another one.
    SHUTTING_DOWN = 33

    #: The middleware has as many connections as it may; go to another one.
    TOO_MANY_CONNECTIONS = 34

    #: A transaction of the client's earlier session is still running; try again.
    TAKEOVER_BUSY = 35

    #: The number is not above the last one that the connection has sent.
    NUMBER_REPEATED = 36

    #: The number that the client says to have lies beyond the topic's end or before its subscription; the
    #: related id is the topic's last number.
    POSITION_UNKNOWN = 40

    #: The subscription was further behind than its limit and has been dropped; subscribe again to begin anew.
    SUBSCRIPTION_DROPPED = 41

    #: Somebody subscribes to the topic, so it cannot be deleted.
    TOPIC_IN_USE = 42

    #: There is no such consumer (any more); join again.
    CONSUMER_NOT_EXISTING = 50

    #: The consumer failed as often in a row as its queue allows and has ended; it gets messages again when it
    #: joins again.
    CONSUMER_INACTIVE = 54

    #: The consumer has answered late too often, or fails everything: others get its partitions for some time.
    #: It stays a member. Only LeaseLost has this code.
    CONSUMER_SLOW = 55

    #: Nothing is known of the message: it never was, or its queue keeps no history, or the time for that is
    #: over.
    MESSAGE_NOT_EXISTING = 64

    #: The database's synchronous standby confirms nothing at present, so that nothing new is begun; nothing
    #: was done. Another middleware has the same database.
    STANDBY_UNAVAILABLE = 68

    #: The database's disk is full, or nearly so: puts are refused, so that reads, acknowledgements and purges
    #: can go on; nothing was done. It ends by itself when there is space. Another middleware has the same
    #: database.
    DISK_FULL = 72

    #: The database canceled the call, because it took longer than the service allows or an operator asked for
    #: it; nothing was done.
    CALL_CANCELED = 73

    #: The database has no connection left for this middleware; nothing was done. Another middleware may have
    #: one.
    CONNECTIONS_EXHAUSTED = 74

    #: The service asks for a login, and this connection has not logged in. With the class FATAL: it asks for
    #: one since the connection was opened.
    NOT_AUTHENTICATED = 75

    #: The user has as many clients, queues or topics as its quota allows, or has stored as much; it must
    #: delete some, or get a larger quota.
    QUOTA_EXCEEDED = 76


class ConnectionState(Enum):
    """How far a connection is, seen from the middleware."""

    #: The connection is open and nothing has been agreed on.
    AWAITING_HELLO = "AWAITING_HELLO"

    #: Versions and limits are agreed on, and `mechanisms` of HelloResponse is not empty; the middleware does
    #: not know yet which user this is.
    AWAITING_LOGIN = "AWAITING_LOGIN"

    #: Versions and limits are agreed on, and the user is known if a login is asked for; the middleware does
    #: not know yet which client this is.
    AWAITING_IDENTITY = "AWAITING_IDENTITY"

    #: The client is known, has the current session and may send every request.
    IDENTIFIED = "IDENTIFIED"

    #: The middleware has sent GoAway: requests under way are answered, new ones are refused with
    #: SHUTTING_DOWN.
    DRAINING = "DRAINING"
