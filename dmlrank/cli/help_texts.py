"""Texts of ``--help`` on the command line: descriptions and examples of all subcommands, and exit codes."""

from __future__ import annotations

_FORMULA = '"winner ~ 1 | model_a + model_b"'

MAIN_DESCRIPTION = "Rank models from pairwise preferences."

EXIT_CODES = """exit codes:
  0    success
  1    an error in the data, the options or the files; one line on standard error
  2    a command line that cannot be parsed
  130  interrupted by Ctrl-C
  141  the reader of standard output has ended"""

MAIN_EXAMPLES = f"""from a file of battles to a page:
  dmlrank check {_FORMULA} battles.csv --context question_id
  dmlrank fit {_FORMULA} battles.csv --context question_id --report board.html

A formula names the column of the winner, features of the prompt (1 for none), and the columns of the two models.
COMMAND --help explains a command, with examples."""

# Arguments of each subcommand in its usage line. On the command line they may stand in any order.
WORDS = {
    "demo": "[OPTIONS]",
    "check": "FORMULA FILE [OPTIONS]",
    "fit": "FORMULA FILE [OPTIONS]",
    "design": "FORMULA FILE --budget B [OPTIONS]",
    "compare": "JSON JSON ... [OPTIONS]   or   dmlrank compare FORMULA FILE [OPTIONS]",
    "report": "JSON ... --out OUT [OPTIONS]",
}

DESCRIPTIONS = {
    "demo": "Fit votes of a simulated arena with 8 models, and print the summary.",
    "check": "Look at a file of battles before a fit, and print what was found: labels, comparison graph, balance of\n"
    "the display orders, cost of a fit, and problems with advice.",
    "fit": "Fit a file of battles, print the summary, and write what the options ask for.",
    "design": "Fit a file of battles, and plan which pairs to label next for a budget.",
    "compare": "Put results side by side, with tests between them: results stored with fit --json, or functionals of\n"
    "one fit. Stored results hold no prompts; --independent says that no prompt is in two of them.",
    "report": "Write one HTML page from results stored with fit --json; several results stand in tabs.",
}

EXAMPLES = {
    "demo": """examples:
  dmlrank demo
  dmlrank demo --functional borda --contexts 2000 --report demo.html""",
    "check": f"""examples:
  dmlrank check {_FORMULA} battles.csv
  dmlrank check {_FORMULA} battles.parquet --context question_id --report check.html
  zcat battles.jsonl.gz | dmlrank check {_FORMULA} - --out check.json""",
    "fit": f"""examples:
  dmlrank fit {_FORMULA} battles.csv --functional borda
  dmlrank fit "winner ~ C(topic) + length | model_a + model_b" battles.csv --context question_id --by topic \\
      --report topics.html
  dmlrank fit {_FORMULA} battles.csv --groups user --rng 1 --out march.json --out march.tex --out march.csv
  dmlrank fit {_FORMULA} battles.csv --slim --top 10 --out best.tex
  zcat battles.csv.gz | dmlrank fit {_FORMULA} -""",
    "design": f"""examples:
  dmlrank design {_FORMULA} battles.csv --budget 500 --out plan.csv
  dmlrank design {_FORMULA} battles.csv --budget 500 --top 3 --one-pair --new prompts.csv --out plan.json""",
    "compare": f"""examples:
  dmlrank compare february.json march.json --independent --changes changes.csv --report months.html
  dmlrank compare {_FORMULA} battles.csv --context question_id --functional bt borda""",
    "report": """examples:
  dmlrank report march.json --out board.html --title "Leaderboard, March"
  dmlrank report february.json march.json --independent --out months.html""",
}
