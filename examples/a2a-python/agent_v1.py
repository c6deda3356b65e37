"""A tiny A2A agent that speaks protocol 1.0, built with nothing but the stock SDK (a2a-sdk 1.x).

It answers every message with what it heard. It knows nothing of Rollcall: `rollcall run` registers its card and keeps the
registration alive.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import httpx
import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, PROTOCOL_VERSION_1_0, TransportProtocol
from starlette.applications import Starlette


class Listener(AgentExecutor):
    """Answers at once with one message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        heard = context.get_user_input()
        await event_queue.enqueue_event(
            new_text_message(f"v1 agent heard: {heard}", context_id=context.context_id)
        )

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("an answer that is given at once cannot be cancelled")


def card_for(url: str) -> AgentCard:
    return AgentCard(
        name="Translator v1",
        description="Answers with what it heard, in A2A 1.0.",
        version="2.1.0",
        supported_interfaces=[
            AgentInterface(
                url=url,
                protocol_binding=TransportProtocol.JSONRPC,
                protocol_version=PROTOCOL_VERSION_1_0,
            )
        ],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id="translate",
                name="Translate text",
                description="Takes a text and says it again.",
                tags=["text", "language"],
                examples=["Grüezi mitenand"],
            )
        ],
    )


def app_for(card: AgentCard) -> Starlette:
    handler = DefaultRequestHandler(
        agent_executor=Listener(), task_store=InMemoryTaskStore(), agent_card=card
    )
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")])


async def served_card(app: Starlette) -> bytes:
    """Returns the card's bytes as the SDK's own card route serves them; no port is opened for it."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as http:
        return (await http.get(AGENT_CARD_WELL_KNOWN_PATH)).raise_for_status().content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1 to answer on")
    parser.add_argument("--write-card", type=Path, metavar="FILE", help="write the card for that port and exit")
    options = parser.parse_args()

    app = app_for(card_for(f"http://127.0.0.1:{options.port}/"))
    if options.write_card:
        options.write_card.write_bytes(asyncio.run(served_card(app)))
        return

    # uvicorn shuts down in order and then raises the signal again; that is the end we asked for, so it is exit 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(app, host="127.0.0.1", port=options.port, timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main()
