"""What docs/performance.md says around its figures."""

from __future__ import annotations

from typing import Final

TITLE: Final = """\
# Performance

This page is made by `python -m benchmarks.page` from `benchmarks/results/{source}`; do not edit it. `make bench`
measures on 1,000 pods in a few minutes, `python -m benchmarks --pods 10000` on 10,000. Every reference was measured
beside its figure, in the same run on the same machine; no test asserts a time.
"""

FIGURES: Final = """\
- **Hashing** is measured with six mixes of Dynamo-like templates, 25 to 50 KB of dump each, from templates that
  are nearly alike to 10,000 that share little. The worst mix is the one that counts. The reference is Go's own
  packages, which hash the same templates, already decoded, on one core.
- **A large dump** is Grove's scale test as `kubectl get -o json` prints it, with containers and field managers. `run`
  migrates it into another file.
"""

RUN_FIGURES: Final = """\
- **The reference of patching** is a Go program (`benchmarks/reference/patcher`) that sends the very same patches with
  client-go, in no particular order, at the best of several concurrencies. It reads nothing, checks nothing and
  logs nothing. It goes there and back once before anything is counted, so that neither of the two is the first to
  write an object: the first to write it has more to do, because its field manager is new there.
- **API server and etcd** are real ones, pinned to one core; the patching process has another. On a machine that
  has other work too, the CPU per patch is a better measure than the clock.
- **Scale test** is Grove's own shape: one PodCliqueSet, and a PodClique for every two pods. **Small sets** are
  one PodCliqueSet for every ten of the pods named, each with two PodCliques of two pods. For 100 pods the goal allows
  the whole run half more than the reference's patching, and one second; its ratio is computed from that.
- **The whole run** is a process from its start to its end: imports, preflight, snapshot, plan, record, patches, and
  the snapshot that proves them. **Operator away** is the time from its scale-down to the last write.
- **A server that answers at once** is a small TLS server in Go (`benchmarks/reference/answerer`), on a core of its own.
- **Nothing to do** is the preflight of a run that finds everything migrated. **The lists alone** are the same lists,
  of every kind that the API server names in Grove's groups: the same client reads and parses them and throws them away.
- **A GET of another client** is one of a small object, twenty times a second, by a process that does nothing else.
"""

NO_RUN: Final = """\
The run on an API server is not part of this measurement. `python -m benchmarks --only run --pods 10000` measures its
time, CPU and memory. [compatibility.md](compatibility.md) has the times of whole runs over 35 to 39 pods.
"""

GROWTH: Final = """\
## Growth

Snapshot, plan and patches of Grove's scale test, from simulated lists in pages of 500. Both axes are logarithmic, so
a figure that grows in proportion to the pods is a straight line of slope one.
"""

PROFILE: Final = """\
## How a run spends its time

One thread sends all patches, as one stream. The official client's pool makes the connections, for lists and single
requests too, so proxies, certificates, names and credentials are the official client's. At first at most eight patches
are under way. After each round of answers this limit rises by one, up to `--concurrency`, while the mean latency is
within a quarter of the best round. It falls again when the API server becomes slower, and by half for a `429` or
`503`. `--qps` limits the rate; by default the rate has no limit. A `429` is obeyed with its `Retry-After`. One patch is
sent for each object and subresource, nothing is read before a write, and a value that is already right is not written.
Right before every patch the hold on the Lease is checked, without a request and after the connection is made, so that
a slow handshake sends nothing late. Pods and PodClique labels go first, then the status of PodCliques and of scaling
groups, and last the PodCliqueSet's own; a further set is begun only when nothing of the begun ones can be sent.

Ways to send the same patch to a server that answers at once, in CPU of the client, measured at
several times on a busy machine (`make bench` measures the last line and client-go again):

| | ms |
|---|---:|
| Go, client-go over HTTP/2 | 0.07 |
| Go, client-go over HTTP/1.1 | 0.06 |
| eight threads and the official client's pool, with executor and log | 0.40 to 0.54 |
| aiohttp, which `kubernetes.aio` brings, without executor and log | 0.24 |
| connections of the pool in one thread, answers read with h11, with executor and log | 0.35 |
| the same, answers read with httptools | 0.08 to 0.10 |
| what patches share is printed once, and headers of an answer are read only where it failed | 0.06 |
| now: fewer calls for each patch, and log lines printed by orjson | 0.045 |

The last step took a quarter away: 58 µs became 45, beside 61 of Go in the same minutes. orjson prints a line of the log
in 0.4 µs instead of 4, and its import takes 1 ms. What requests of one kind share is found once; patches and kinds are
tuples; characters are escaped without a regular expression; a socket's timeout is set only where it changes. Of the
rest about 20 µs are TLS and the kernel. These were measured too, and give 1 µs or less each: a connection that stays in
the poll, operations whose texts are remembered, fewer readings of the clock (0.07 µs each), log lines written several
at a time, a lighter object for a request under way, and headers of an answer that are collected only where it failed.

`kubernetes.aio` was not taken, for four reasons. aiohttp alone costs more CPU than our whole way of sending. Its loader
of kubeconfigs never renews credentials: `config/kube_config.py:KubeConfigLoader._set_config` sets no
`refresh_api_key_hook`, and the loop that it offers instead (`refresh_token`) covers two of the providers and no client
certificates. So a run that outlasts its token would end half-written. It has no `no_proxy` of its own and no SOCKS
proxy. And its import takes 0.2 s and 12 MiB more. So the image stays without `kubernetes/aio`, aiohttp and its eight
dependencies: the synchronous client, which reads, lists and elects, makes the connections for patches too.

## While the operator is away

Users notice the operator's absence: no pod is replaced and no set scales until the next operator runs. Where a run is
measured, the rows "operator away" have its stages, from the scale-down to the end of the run: `waiting` for its pods to
end and its Leases to be free, `fence`, the `snapshot` behind the fence, `record`, `execute` (the patches), `verify`
(the snapshot that proves them) and `close`. The first snapshot and plan, all checks of rights, the dry runs against
webhooks and our own policies, and the record of the operator are made before the stop. So are the hashes of all specs
that do not change meanwhile: the second plan took 71 ms of CPU for 100 small sets, and takes 25. The rest cannot come
before the stop: every proof rests on the snapshot behind the fence, and the tables are made from it.

### What writing before the stop would save

Pods' labels are about half of all patches (10,000 of 20,001 in Grove's scale test of 10,000 pods). An API server with
one core took 172 patches a second in an earlier measurement: 58 of the 116 s of patching are for these labels. If they
were written before the stop, the operator would be away for about 62 s instead of 120 s, and at 1,000 pods for about
6 s instead of 12 s.

Grove allows this while nothing changes, but four facts speak against it (read in v0.1.0-alpha.9, alpha.11 and
alpha.12-rc1, `operator/internal/controller`):

- **Allowed**: a change of a pod's labels alone wakes nobody. `podclique/register.go:podPredicate` passes updates of a
  pod's status and deletions only. Pods are replaced by `podclique/components/pod/rollingupdate.go:computeUpdateWork`,
  which compares the label, and which `syncflow.go` calls only while the PodClique's own update is in progress.
- **Against it: an edit meanwhile**: the spec is not frozen while the operator runs. An edit begins an update, and then
  every pod with our label counts as old: those that are not ready are deleted at once (`deleteOldNonReadyPods`), the
  others one by one. This also happens in PodCliques whose template nobody touched and which would have kept their pods.
- **Against it: alpha.12-rc1 in any case**: `podclique/reconcilespec.go:shouldCheckPendingUpdatesForPCLQ` is true for
  standalone PodCliques without any update of the set, and `shouldResetOrTriggerUpdate` is true where no
  `updateProgress` is stored. Such an update is empty as long as the pods' labels are the operator's; with ours, it
  deletes them.
- **Against it: users see it**: `podclique/reconcilestatus.go:mutateUpdatedReplica` counts pods by the label, so that
  the next reconciliation for any reason sets `updatedReplicas` to 0, for scaling groups and sets too. Dynamo reports
  such a graph as not ready. A scale-in then chooses its pods by the label as well (`components/pod/deletionsort.go`).
- **Against it: the authorizer**, where it is on: only the operator may change its pods.

So a write before the stop would save half of the absence. But whenever somebody edits a set meanwhile, it would break
the promise that no pod is replaced because of us. It is not built.

### Where goals are missed, and what comes next

- **CPU of a patch**: against a server that answers at once it is like Go's. Against a real API server a patch costs
  three to five times as much, in Go too: there each wake-up brings one answer. With fewer than 1,000 patches the start
  of the process alone takes more than half a millisecond of CPU for each.
- **The start**: it takes more than two thirds of the CPU of a run that finds nothing to do, and a third of one with
  1,000 pods, so figures for each patch look bad there. Of 350 ms, importing the official client takes 140. A part of
  these, and 11 MiB, are packages that are not used (pydantic, websockets). A trick with Python's modules keeps them
  out; it was tried, and is not worth it. 50 ms and 7 MiB are structlog and rich, which structlog imports without a
  terminal too, and 50 ms the creation of our own dataclasses. Modules are hidden from the collector of cycles, which
  walked through them again and again, and once more at the end: a fifth of a run that finds nothing to do.
- **The whole run**: a run reads three snapshots: before the operator stops, behind the fence, and to prove what was
  written.
- **Nothing to do**: a run also reads the operator, its configuration, the record and the kinds of Grove's groups, and
  plans. Of 100 small sets, planning takes 30 ms, more than half of it their hashes under one scheme; it begins when
  the last list has arrived. The next step: plan sets while the last lists arrive.
- **Memory**: of a dump only what decisions need is kept, as bytes. Objects share the strings and the parts that most
  of them have. A pod with its half of a PodClique takes about 1 KiB in a snapshot with its plan: the names and UIDs
  of both and their changes. Stored values are judged as they are found, and patches made rank by rank when they are
  sent. PodCliques whose status differs from all others, in a time for example, take more. The items of a list are
  decoded one by one, which took a third of the CPU of all lists and two thirds of their memory away.
- **All schemes**: a template is printed and summed once for each layout and each order of its lists, which is ten texts
  for the twelve schemes if its lists are not in canonical order. Types, remembered parts and the texts between fields
  are shared between layouts that print them alike. But a sum depends on all that stands before a text, so every text
  is summed from its first difference on: ten warm sums take 1.9 times what one scheme takes in all, and two walks over
  the template about as much as one scheme. So pure Python cannot reach 2; about 3 would need a second way to print,
  by exchanging the texts that differ. Detection tries the schemes in order, so most templates never meet all of them.
- **Hashing against Go**: the walk over a template gives pieces of text, and the pieces are summed. The tables below
  have both parts, and what was tried. The start of the process is an eighth of the figure for templates that are nearly
  alike.
- **Text that was not met before**: a character of it costs Python about 70 ns, and Go one or two. Everything else, the
  names and unset fields of a dump, costs one multiplication for each run of fixed text. A template with a unique script
  of 20 KB takes more than a millisecond for that script alone.

### Where the time of hashing goes

Microseconds of CPU for each of the first 600 templates of a mix, cold, without the start of the process (medians of
three passes in turn, on two cores at a load of 35 to 50, where CPU time is higher than on an idle machine). Before:
each separator was a piece of its own, and the sums of a remembered part were computed one by one.

| mix | walk before | sum before | walk now | sum now | pieces before | pieces now |
|---|---:|---:|---:|---:|---:|---:|
| values differ | 341 | 377 | 305 | 286 | 376 | 265 |
| many fields differ | 915 | 957 | 924 | 862 | 1,168 | 942 |
| structure differs too | 872 | 955 | 865 | 930 | 1,091 | 889 |
| 50 kinds in turn, 20 of each | 530 | 991 | 562 | 965 | 509 | 383 |

For templates that are nearly alike, about a tenth of the time went to the first sums of remembered parts, as each part
meets all 128 states. They are now computed together after the 24th.

| tried | figure | taken |
|---|---|---|
| the separator in the text that follows it; fewer pieces of a quantity | 19 to 30 % fewer pieces | yes |
| all 128 sums of a remembered part together after the 24th | sum 377 to 286 with the line above | yes |
| remembering whole lists of up to 16 elements as well | values differ: 576 to 547, many fields: 1,786 to 1,962 | no |
| four bytes a step, masked once | 79 to 69 ns a byte | no: 3 % of a template |
| the low byte's states by `accumulate`, times powers by `map` | 79 to 127 ns a byte | no |
| lists of sums instead of arrays | 171 to 132 ns a piece | no: 4.6 KB instead of 1 KB for each remembered part |
| the hash of a tuple as key of a struct's content | 344 to 156 ns a struct | no: `True` equals 1 |
| text between two fields composed of the texts of single fields | no change | no |
| the number of a port as a piece of its own; a pointer's printer found once | structure and 50 kinds: 6 % less | yes |
| a table of hashes by place instead of "met once" | structure: walk 7 to 10 % less, 50 kinds: 12 to 15 % more | no |
| a tuple of strings as key instead of `marshal` | walk 7 to 17 % more | no |
| tables of two characters | 365 to 456 instead of 79 ns a byte | no |
| sums of joined parts after the 14th or the 40th | 14: twice the sum for 50 kinds; 40: no change | no |
| containers printed once where layouts share them | all schemes: walk 1,396 to 986 µs, sum as before | no: 16 % |
| texts between fields shared by layouts | all schemes: sum 1,260 to 1,105 µs | yes |
| five layouts summed side by side | all schemes: warm sums 640 to 1,300 µs | no |
"""
