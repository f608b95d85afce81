"""Which handler executes which packet."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager

from telesto.middleware.common.peers import Peers
from telesto.middleware.consumers.lease_renewal import LeaseRenewal
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.procedures import (
    administration,
    clients,
    dead_letters,
    history,
    lists,
    queues,
    topics,
)
from telesto.middleware.procedures.consumers import TOUCH, JoinQueueHandler, LeaveQueueHandler, NackHandler
from telesto.middleware.procedures.put import queue_of as queue_of_put
from telesto.middleware.scheduling.requests import Kind, Pipeline, Request
from telesto.middleware.scheduling.single_request import Handler
from telesto.middleware.security.users import User
from telesto.protocol import packets

_SHARED: dict[int, Handler] = {
    packets.Authenticate.METHOD_ID: clients.authenticate,
    packets.RegisterClient.METHOD_ID: clients.REGISTER_CLIENT,
    packets.IdentifyClient.METHOD_ID: clients.identify_client,
    packets.DeleteClient.METHOD_ID: clients.DELETE_CLIENT,
    packets.Release.METHOD_ID: clients.RELEASE,
    packets.ListUnconfirmed.METHOD_ID: clients.list_unconfirmed,
    packets.CreateQueue.METHOD_ID: queues.CREATE_QUEUE,
    packets.UpdateQueue.METHOD_ID: queues.UPDATE_QUEUE,
    packets.GetQueueSettings.METHOD_ID: queues.QUEUE_SETTINGS,
    packets.DeleteQueue.METHOD_ID: queues.DELETE_QUEUE,
    packets.GetQueueId.METHOD_ID: queues.GET_QUEUE_ID,
    packets.GetQueueName.METHOD_ID: queues.GET_QUEUE_NAME,
    packets.GetQueues.METHOD_ID: queues.LIST_QUEUES,
    packets.GetActiveQueues.METHOD_ID: queues.LIST_ACTIVE_QUEUES,
    packets.GetMessages.METHOD_ID: queues.BROWSE_MESSAGES,
    packets.Subscribe.METHOD_ID: topics.SUBSCRIBE,
    packets.Unsubscribe.METHOD_ID: topics.UNSUBSCRIBE,
    packets.DeleteTopic.METHOD_ID: topics.DELETE_TOPIC,
    packets.ListTopics.METHOD_ID: lists.LIST_TOPICS,
    packets.ListSubscriptions.METHOD_ID: topics.LIST_SUBSCRIPTIONS,
    packets.PurgeQueue.METHOD_ID: administration.purge_queue,
    packets.CancelMessage.METHOD_ID: administration.CANCEL_MESSAGE,
    packets.GetQueueStatistics.METHOD_ID: administration.QUEUE_STATISTICS,
    packets.ListDeadLetters.METHOD_ID: dead_letters.LIST_DEAD_LETTERS,
    packets.RedriveDeadLetters.METHOD_ID: dead_letters.REDRIVE_DEAD_LETTERS,
    packets.DeleteDeadLetters.METHOD_ID: dead_letters.DELETE_DEAD_LETTERS,
    packets.Touch.METHOD_ID: TOUCH,
    packets.GetMessageHistory.METHOD_ID: history.MESSAGE_HISTORY,
    packets.ListQueues.METHOD_ID: lists.LIST_QUEUES,
    packets.ListClients.METHOD_ID: lists.LIST_CLIENTS,
    packets.ListConsumers.METHOD_ID: lists.LIST_CONSUMERS,
    packets.ListMiddlewares.METHOD_ID: lists.LIST_MIDDLEWARES,
}


def single_handlers(
    consumers: ConsumerRegistry,
    leases: LeaseRenewal,
    leaving: LeavingConsumers,
    peers: Peers,
    may_join: Callable[[Pipeline, int], bool],
    joining: Callable[[User | None], AbstractContextManager[None]],
) -> dict[int, Handler]:
    """All handlers of single requests, those that keep consumers included."""
    return {
        **_SHARED,
        packets.JoinQueue.METHOD_ID: JoinQueueHandler(consumers, leaving, leases, peers, may_join, joining),
        packets.Nack.METHOD_ID: NackHandler(consumers),
        packets.LeaveQueue.METHOD_ID: LeaveQueueHandler(consumers, leaving),
    }


def queue_of(request: Request) -> Hashable:
    """The one queue or topic of a gathered request, 0 when it is for several or none."""
    if request.kind is Kind.PUBLISH:
        topic: str = request.packet.topic
        return topic
    if request.kind is Kind.PUT:
        return queue_of_put(request)
    queue_id: int = getattr(request.packet, "queue_id", 0)
    return queue_id
