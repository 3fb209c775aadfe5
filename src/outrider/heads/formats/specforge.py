"""EAGLE-3 heads as SafeAILab's code and SpecForge train and read them.

Configurations and names: SafeAILab/EAGLE (eagle/model/cnets.py) and sgl-project/SpecForge (configs/).
"""

from __future__ import annotations

from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.formats import midlayer
from outrider.heads.formats.eagle3_tensors import eagle3_tensors
from outrider.heads.formats.spelling import ForTarget, Spelling, Written


def _write(head: Eagle3Head, target: ForTarget) -> Written:
    """Return what a directory is to hold; the target is not named there.

    `norm_output` is left out for a head that is fed its output as it is: SpecForge's default has meant that
    in all its versions, while its "false" once meant something else.
    """
    config = midlayer.midlayer_settings(head, "SpecForge")
    if head.config.feed_normed:
        config["norm_output"] = True
    return Written(config, eagle3_tensors(head, midlayer.LAYER))


SPECFORGE = Spelling("specforge", "eagle3", midlayer.recognises, midlayer.load, _write)
