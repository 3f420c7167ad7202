from .eval_logs import read_log
from .readers import read_arena, read_chatbot_arena, read_mt_bench
from .simulators import Arena, Bt, Ties, simulate_arena, simulate_bt, simulate_ties

__all__ = [
    "Arena",
    "Bt",
    "Ties",
    "read_arena",
    "read_chatbot_arena",
    "read_log",
    "read_mt_bench",
    "simulate_arena",
    "simulate_bt",
    "simulate_ties",
]
