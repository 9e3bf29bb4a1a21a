"""Tools of an MCP server in the hands of a local model. Needs: pip install 'chenxing[agent]' mcp-server-time"""

import asyncio
import sys

from chenxing import LLM
from chenxing.agent import Emitted
from chenxing.agent.local import LocalModel
from chenxing.agent.react import Called, Observed, question, react
from chenxing.agent.tools import Toolbox
from chenxing.agent.tools.mcp import mcp_tools
from chenxing.sampling import SamplingParams

SERVER = f'"{sys.executable}" -m mcp_server_time --local-timezone Europe/Berlin'.replace("\\", "/")


async def main() -> None:
    with LLM.load("smollm2", n_ctx=4096) as llm:
        async with mcp_tools(SERVER, trusted=True) as tools:
            print("tools:", ", ".join(each.name for each in tools))
            model = LocalModel(llm, params=SamplingParams(temp=0.0), max_tokens=80)
            graph = react(model, Toolbox(tools), first_choice="required", max_answers=2)
            async for event in graph.astream(question("What time is it in Asia/Tokyo?")):
                match event:
                    case Emitted(what=Called(call)):
                        print(f"call         {call.name} {call.arguments}")
                    case Emitted(what=Observed(_, observation)):
                        print(f"observation  {' '.join(observation.text.split())}")


asyncio.run(main())
