"""Records that cross modules: tasks, replies, steps. Frozen, printable, saved as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Message = dict[str, Any]  # one message of the chat-completions protocol, ready to be sent


class Record(BaseModel):
    """Base of all records: immutable, and a field nobody defined is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Task(BaseModel):
    """One line of a dataset file; fields that we do not know are kept and written back."""

    model_config = ConfigDict(frozen=True, extra="allow")

    swe_type: str = "passnet"
    sample_dir: str
    repo_name: str = "passnet"
    docker_image: str = "passnet:latest"
    instance_id: str


class Usage(Record):
    """Tokens and money of one answer; `estimated` where the endpoint reported no usage."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cost: float = 0.0  # USD
    estimated: bool = False
    wasted: int = 0  # tokens of answers that could not be used and were asked for again; `cost` includes them

    @property
    def total(self) -> int:
        return self.prompt + self.completion


class ToolCall(Record):
    """One call asked for by the model; `error` says why its arguments could not be read."""

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    error: str = ""
    extra: dict[str, Any] = Field(default_factory=dict)  # a provider's own fields, passed back as they came
    source: Literal["native", "text"] = "native"  # text: read from a plain answer


class Reply(Record):
    """One answer of a model, cleaned: valid UTF-8, capped, arguments parsed."""

    content: str = ""
    reasoning: str = ""
    extra: dict[str, Any] = Field(default_factory=dict)  # a provider's own fields, passed back as they came
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage()
    seconds: float = 0.0
    tries: int = 1
    note: str = ""  # what had to be repaired


class Observation(Record):
    """The answer to one tool call."""

    call_id: str
    name: str
    text: str
    failed: bool = False


class Step(Record):
    """One turn: a reply, what its calls gave, and where that left the pass set."""

    index: int
    reply: Reply
    observations: tuple[Observation, ...] = ()
    message: str = ""  # what the user says after a reply without a usable call
    pass_set: str = ""  # hash of pass_dir after the step
    evaluations: tuple[str, ...] = ()  # keys of the evaluations asked for in this step
    env_seconds: float = 0.0
    elapsed: float = 0.0  # seconds since the attempt began, over all resumptions


class Ended(Record):
    """How an attempt ended, and what it was worth."""

    reason: str
    detail: str = ""
    early_stop: str = ""
    reward: float | None = None
    reward_note: str = ""  # why there is no reward, or what was left out of it
    best_pass_set: str = ""
    best_evaluation: str = ""  # key of the evaluation that the reward comes from
    solved: bool = False
    elapsed: float = 0.0
