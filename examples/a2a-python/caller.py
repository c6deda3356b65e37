"""Finds an agent through Rollcall, reads its card there with the SDK's own resolver, sends it a text and prints the answer.

Runs with a2a-sdk 1.x (calls agents of 1.0 and 0.3) and with a2a-sdk 0.3.x (calls agents of 0.3). The answer is one line on
stdout; when there is none, exit 1 and one sentence on stderr. Rollcall is asked for the agent and its card and never sees the
message: that goes straight to the address in the card.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory

SDK_MAJOR = int(version("a2a-sdk").split(".")[0])


class NoAnswer(Exception):
    """Says in one sentence why there is no answer."""


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Turns whatever goes wrong inside into a NoAnswer that names the step."""
    try:
        yield
    except NoAnswer:
        raise
    except Exception as error:  # the errors of httpx and of the two SDKs share no nearer ancestor
        raise NoAnswer(f"{what}: {error}") from error


async def find_agent(http: httpx.AsyncClient, rollcall: str, query: dict[str, str]) -> str:
    """Returns the id of the first agent that fits the query."""
    response = await http.get(f"{rollcall}/v1/agents", params=query)
    if response.is_error:
        raise NoAnswer(f"Rollcall refused the query with {response.status_code}: {response.text}")
    found = response.json()
    if not found["agents"]:
        wanted = " ".join(f"{name}={value}" for name, value in query.items())
        # An empty list from a region whose view is not loaded proves nothing, so the states belong to the answer.
        states = ", ".join(f"{region['region']} is {region['state']}" for region in found["regions"])
        raise NoAnswer(f"no agent for {wanted} ({states})")
    return found["agents"][0]["id"]


async def ask_v1(client: Client, text: str) -> str:
    from a2a.helpers import get_stream_response_text, new_text_message
    from a2a.types import Role, SendMessageRequest

    message = new_text_message(text, role=Role.ROLE_USER)
    async for response in client.send_message(SendMessageRequest(message=message)):
        if answer := get_stream_response_text(response):
            return answer
    raise NoAnswer("the agent answered without text")


async def ask_v03(client: Client, text: str) -> str:
    from a2a.client import create_text_message_object
    from a2a.types import Message
    from a2a.utils import get_message_text

    async for event in client.send_message(create_text_message_object(content=text)):
        if isinstance(event, Message) and (answer := get_message_text(event)):
            return answer
    raise NoAnswer("the agent answered without text")


async def call(rollcall: str, query: dict[str, str], text: str) -> str:
    async with httpx.AsyncClient() as http:
        # From here on the 1.x SDK's factory adds `A2A-Version: 1.0` to what this client sends; 0.3.x adds nothing.
        factory = ClientFactory(ClientConfig(httpx_client=http))
        with failing_as(f"Rollcall at {rollcall} gave no agents"):
            agent = await find_agent(http, rollcall, query)
        with failing_as(f"the card of {agent} cannot be used"):
            namespace, name, _instance = agent.split("/")
            card = await A2ACardResolver(http, f"{rollcall}/v1/agents/{namespace}/{name}").get_agent_card()
            client = factory.create(card)
        with failing_as(f"{agent} did not answer"):
            return await (ask_v1 if SDK_MAJOR >= 1 else ask_v03)(client, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollcall", required=True, metavar="URL", help="the cell to ask, such as http://127.0.0.1:7410")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--skill", help="id of a skill in the agent's card, such as translate")
    wanted.add_argument("--capability", help="a capability, such as text:translate:v1")
    parser.add_argument("--name", help="only agents of this name, such as translator-v1")
    parser.add_argument("--region", default="all", help="a region's name, own or all (default)")
    parser.add_argument("--text", required=True, help="what to say to the agent")
    options = parser.parse_args()

    query = {name: getattr(options, name) for name in ("skill", "capability", "name", "region")}
    query = {name: value for name, value in query.items() if value}
    try:
        answer = asyncio.run(call(options.rollcall.rstrip("/"), query, options.text))
    except NoAnswer as why:
        # A card that does not fit is quoted whole by the SDK, so the sentence is cut.
        sys.exit(f"caller: {one_line(str(why))[:400]}")
    print(one_line(answer))


def one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
