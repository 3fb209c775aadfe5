"""A drafter in one file: it guesses that the last token comes again. Any drafter gives the same text."""

from outrider import SamplingParams
from outrider.engine.engine import Engine
from outrider.models.load import load_model
from outrider.types import DraftTree


class Stutter:
    """Guesses the last token once more."""

    name = "stutter"
    has_law = False
    weighs_costs = False
    speculates = True
    observes = False
    features = ()
    caches = ()

    def open(self, prompt, tenant=""):
        return None

    def propose(self, asks):
        return [DraftTree.chain([ask.tokens[-1]]) for ask in asks]

    def extend(self, state, tokens, kept):
        pass

    def close(self, state):
        pass


model = load_model("demo")
engine = Engine(model, Stutter(), drafter_name="stutter")
prompt = model.tokenizer.encode("Laughing out loud: ha ha ha ha")
request = engine.submit(prompt, SamplingParams(max_tokens=24))
while engine.busy:
    engine.step()
assert request.result is not None
print(request.result.text)
print(request.result.speculation)
