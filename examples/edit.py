"""An edit of a given text, plain and with the suffix drafter: the same tokens in fewer passes."""

import outrider

PROMPT = (
    "Correct the spelling and change nothing else:\n\n"
    "The ferry leavs the harbour at nine. It stops at the lighthouse, at the fishing vilage and at the old "
    "fort, and it is back in the harbour before noon."
)

plain = outrider.load("demo")
suffix = plain.using(drafter="suffix")
expected = plain.generate(PROMPT, chat=True, max_tokens=64)
result = suffix.generate(PROMPT, chat=True, max_tokens=64)

print(result.text)
print(f"same tokens: {result.token_ids == expected.token_ids}")
print(f"passes: {result.speculation.passes} instead of {expected.speculation.passes}")
