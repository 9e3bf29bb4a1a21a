"""Tools for agents: `@tool` makes one of a typed function; the files here make those that come along."""

from chenxing.agent.tools.tool import Tool, ToolError, tool
from chenxing.agent.tools.toolbox import Observation, Toolbox

__all__ = ["Observation", "Tool", "ToolError", "Toolbox", "tool"]
