"""The words of `tilec.tile`, one file a family; importing this package fills the vocabulary."""

from __future__ import annotations

from tilec.frontend.lowering.words import barriers as barriers
from tilec.frontend.lowering.words import copies as copies
from tilec.frontend.lowering.words import loops as loops
from tilec.frontend.lowering.words import matrix as matrix
from tilec.frontend.lowering.words import registers as registers
from tilec.frontend.lowering.words import scalars as scalars
from tilec.frontend.lowering.words import schedule as schedule
from tilec.frontend.lowering.words import scopes as scopes
from tilec.frontend.lowering.words import storage as storage
from tilec.frontend.lowering.words import sync as sync
from tilec.frontend.lowering.words import views as views
