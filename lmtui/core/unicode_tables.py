"""Tables of Unicode: what is drawn as nothing or as a blank.

Made by `python -m docs.make_unicode` from Unicode 15.0.0; do not edit.
"""

# fmt: off

# The insides of classes of regular expressions.
DEFAULT_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-"
    "\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
SEPARATORS = (
    "\u00a0\u1680\u2000-\u200a\u2028-\u2029\u202f\u205f\u3000"
)
BLANK = (
    "\u2800\ufff9-\ufffb\U0001d159"
)
