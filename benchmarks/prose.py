"""What docs/performance.md says around its figures."""

from __future__ import annotations

from typing import Final

TITLE: Final = """\
# Performance

This page is made by `python -m benchmarks.page` from `benchmarks/results/{source}`; do not edit it. `make bench`
measures on 1,000 pods in a few minutes, `python -m benchmarks --pods 10000` on 10,000. Every figure stands beside a
reference that was measured in the same run on the same machine; nothing timed is asserted in tests.
"""

FIGURES: Final = """\
- **Hashing** is measured with six mixes of Dynamo-like templates, 25 to 50 KB of dump each, from such that are nearly
  alike to 10,000 that share little. The worst of them is what counts. The reference is Go's own packages, hashing the
  same templates, decoded, on one core.
- **The reference of patching** is a Go program (`benchmarks/reference/patcher`) that sends the very same patches with
  client-go, in no particular order, at the best of several concurrencies. It finds nothing out, checks nothing and
  logs nothing.
- **API server and etcd** are real ones, pinned to one core; whoever patches is pinned to another. On a machine that
  does other things as well, the CPU per patch tells more than the clock.
- **Scale test** is Grove's own shape: one PodCliqueSet, and a PodClique for every two pods. **Small sets** are as many
  PodCliqueSets as a tenth of the pods named, with two PodCliques of two pods each.
- **The whole run** is a process from its start to its end: imports, preflight, snapshot, plan, record, patches, and
  the snapshot that proves them. **Operator away** is the time from its scale-down to the last write.
- **Nothing to do** is the preflight of a run that finds everything migrated, **the lists alone** are the same lists,
  read and parsed by the same client and thrown away.
- **A GET of another client** is one of a small object, twenty times a second, by a process that does nothing else.
"""

GROWTH: Final = """\
## Growth

Snapshot, plan and patches of Grove's scale test, from simulated lists in pages of 500. Both axes are logarithmic, so
what grows in step with the pods is a line.
"""

PROFILE: Final = """\
## How a run spends its time

A run sends eight requests at a time, over as many connections of the official client's pool, kept alive: enough to
keep an API server with one core busy all the time. `--qps` limits it; there is no
limit by default. A `429` is obeyed with its `Retry-After`. One patch is sent for each object and subresource, nothing
is read before a write, and what is right already is not written. Before every patch the hold on the Lease is checked,
without a request. Pods and PodClique labels go first, then the status of PodCliques and of scaling groups, and last the
PodCliqueSet's own; a further set is begun only when a worker would have nothing to do otherwise.

Of our own CPU for one patch, about a quarter is TLS (two writes, because Python's HTTP library sends head and body
apart, and one read), almost a half is what `http.client` and urllib3 do around it (ten answer headers are parsed as an
e-mail's would be), one part in twenty is the log line that every patch leaves, and as much the JSON of request and
answer.

What was done about it, by CPU per patch against a server that answers at once:

- Credentials were asked of the official client for every request; with a kubeconfig it then reads the whole
  environment for proxies, a sixth of the time. Now they are taken for fresh for one second.
- The connection pool was found anew by URL for every request; now it is looked up once.
- Answers whose objects are metadata only are parsed by the plain JSON parser.
- Workers take the next patch themselves; before, one thread handed out every patch and was woken for every answer.

Together 1.7 ms became about 0.9 ms. What is left is the HTTP library's: the next step would be to send head and body
in one TLS record, which `http.client` does not offer, and not to parse ten answer headers of which none is looked at.
Both would need a client of our own, which the tool does not want: proxies, credential plugins and certificates are the
official client's business.

### Where goals are missed, and what comes next

- **The whole run**: a process takes about a second of CPU to start, most of it the import of the Kubernetes client, and
  a run reads three snapshots: before the operator stops, behind the fence, and to prove what was written. That is lost
  in the patching of 10,000 pods; a cluster of some hundred pods misses the goal by the start alone. The next step:
  import only the parts of the client that are used (its package imports every API's models).
- **Nothing to do**: beside the lists, the operator, its configuration and the record are read, and a second of CPU goes
  to trimming 10,000 pods and to planning. Keeping the garbage collector away took about a quarter off that. Pages are
  asked for ahead, which shortens the lists themselves too. The next step: plan sets while the last lists arrive.
- **Memory**: a snapshot with its plan takes about 3 KiB a pod, on top of 60 MiB with which a client starts. A run held
  three when these figures were measured: the plan of before the operator stopped, that behind the fence, and the
  snapshot that proves. The first is dropped since (at 2,000 pods in small sets 93 MiB instead of 99). The next step: to
  compare object by object as the last lists arrive.
- **All schemes**: every text of a template is printed once for each API minor and order of its lists, and hashed once
  for each scheme, because the sums differ by then. Detection tries the schemes in order, so most templates never meet
  all of them.
- **Text that was never met**: a character of it costs Python about 70 ns, and Go one or two. Everything else, the names
  and unset fields of a dump, costs one multiplication for each run of fixed text. A template with a unique script of
  20 KB takes more than a millisecond for that script alone.
"""
