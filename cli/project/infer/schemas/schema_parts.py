"""Types that every language of schemas has: a choice of texts, a list and a map."""

from collections.abc import Sequence

from tandem.cli.project.infer.field_type import STRUCT, FieldType

_MOST_CHOICES = 12


def choices(texts: Sequence[str]) -> FieldType:
    """A text that is one of these; of many, any text."""
    written = ", ".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    if 0 < len(texts) <= _MOST_CHOICES:
        return FieldType("text", f"Literal[{written}]", distinct=len(texts))
    return FieldType("text", "str", f"the schema names {len(texts)} values", distinct=len(texts))


def array_of(item: FieldType) -> FieldType:
    """A list of items of a type."""
    if not item.annotation:
        return FieldType("other", "", item.note)
    text = f"{item.annotation} | None" if item.missing else item.annotation
    return FieldType("struct" if item.kind == "struct" else "other", f"list[{text}]", item.note, members=item.members)


def map_of(value: FieldType) -> FieldType:
    """A map from texts to values of a type."""
    if not value.annotation or STRUCT in value.annotation:
        return FieldType("other", "", value.note or "its values are objects; declare dict[str, ...] by hand")
    return FieldType("other", f"dict[str, {value.annotation}{' | None' if value.missing else ''}]", value.note)
