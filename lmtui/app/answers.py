"""What an answer has to look like, for front ends.  Heavy (jsonschema): imported where a schema is given."""

from lmtui.features.call_schema import read_schema

__all__ = ["read_schema"]
