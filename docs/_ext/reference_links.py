"""References in docstrings by the last part of a name, such as ``RankResults.plot``, wherever the class is defined."""

from __future__ import annotations

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element) -> nodes.Element | None:
    """Return a link to the one object of the reference whose name ends with the target of the link."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    objects = env.domaindata["py"]["objects"]
    shortened = target.removeprefix("dmlrank.")
    matches = {entry for name, entry in objects.items() if name == target or name.endswith("." + shortened)}
    places = {(entry.docname, entry.node_id) for entry in matches}
    if len(places) != 1:
        return None
    page, anchor = places.pop()
    return make_refnode(app.builder, node["refdoc"], page, anchor, text, target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the search to references that Sphinx does not resolve."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
