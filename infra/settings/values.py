"""Types that the settings of several tables share."""

from typing import Annotated

from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Memory = Annotated[str, Meta(pattern="^[0-9]+[kmgKMG]$")]
Port = Annotated[int, Meta(ge=0, le=65535)]
