// Package random writes seeded random pod templates and PodCliqueSets as JSON text.
//
// Text and not values, because the spelling of a number or of a string may change what Go makes of it.
// Most lines are what a user might write; the rest go where ports go wrong: absent against empty, null
// in odd places, unknown fields, quantities of every kind, and values that Go refuses.
package random

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Write prints count lines. Equal arguments give equal lines under one minor.
func Write(out io.Writer, seed uint64, count int, sets bool) error {
	writer := bufio.NewWriter(out)
	for n := range count {
		// A stream for each line: any line can be made again without those before it.
		g := &generator{rng: rand.New(rand.NewPCG(seed, uint64(n)))}
		if sets {
			fmt.Fprintf(writer, `{"id":"random/pcs/%d/%d","pcs":%s}`+"\n", seed, n, g.podCliqueSet())
		} else {
			fmt.Fprintf(writer, `{"id":"random/%d/%d","input":%s}`+"\n", seed, n, g.template())
		}
	}
	return writer.Flush()
}

// generator holds the dice and how they are loaded for the template at hand.
type generator struct {
	rng    *rand.Rand
	odds   odds
	budget int // how many more values may be written before everything closes
}

// odds are probabilities; each is asked at every place where it can apply.
type odds struct {
	null    float64 // null where a value could stand
	empty   float64 // [] {} "" instead of something
	odd     float64 // strange spellings and characters
	unknown float64 // a field that no struct has
	wrong   float64 // a value that Go refuses
}

var moods = []odds{
	{},
	{empty: 0.1},
	{null: 0.05, empty: 0.2, odd: 0.1, unknown: 0.05},
	{null: 0.15, empty: 0.3, odd: 0.5, unknown: 0.1},
	{null: 0.02, empty: 0.1, odd: 0.1, wrong: 0.02},
}

func (g *generator) template() string {
	g.odds = moods[g.rng.IntN(len(moods))]
	g.budget = []int{15, 40, 40, 80, 80, 150, 300}[g.rng.IntN(7)]
	var members []member
	members = g.metadata(members)
	if g.chance(0.95) {
		members = append(members, member{"podSpec", g.podSpec()})
	}
	if g.chance(0.3) {
		members = append(members, member{"priorityClassName", g.value(reflect.TypeFor[string](), "priorityClassName")})
	}
	return g.object(members)
}

func (g *generator) metadata(members []member) []member {
	for _, name := range []string{"labels", "annotations"} {
		if g.chance(0.5) {
			members = append(members, member{name, g.value(reflect.TypeFor[map[string]string](), name)})
		}
	}
	return members
}

// podSpec is hardly ever null, empty, or no object.
func (g *generator) podSpec() string {
	t := reflect.TypeFor[corev1.PodSpec]()
	if g.chance(0.02) {
		return g.value(t, "podSpec")
	}
	return g.object(g.fields(t, nil))
}

var (
	cliqueNames  = []string{"frontend", "prefill", "decode", "worker", "leader", "router", "z", "a", "B", "worker-10", "worker-9"}
	startupTypes = []string{`"CliqueStartupTypeAnyOrder"`, `"CliqueStartupTypeInOrder"`, `"CliqueStartupTypeInOrder"`,
		`"CliqueStartupTypeExplicit"`, `null`, `""`, `"inorder"`}
)

func (g *generator) podCliqueSet() string {
	var template []member
	g.odds = moods[0]
	if g.chance(0.8) {
		template = append(template, member{"cliqueStartupType", pick(g, startupTypes)})
	}
	if g.chance(0.4) {
		template = append(template, member{"priorityClassName", g.value(reflect.TypeFor[string](), "priorityClassName")})
	}
	if g.chance(0.97) {
		names := shuffled(g, cliqueNames)[:g.rng.IntN(5)]
		cliques := make([]string, 0, len(names))
		for _, name := range names {
			cliques = append(cliques, g.clique(name))
		}
		template = append(template, member{"cliques", "[" + strings.Join(cliques, ",") + "]"})
	}
	spec := []member{{"replicas", fmt.Sprint(g.rng.IntN(4))}, {"template", g.object(template)}}
	name := fmt.Sprintf(`{"name":"set-%d","namespace":"default"}`, g.rng.IntN(1000))
	return g.object([]member{
		{"apiVersion", `"grove.io/v1alpha1"`},
		{"kind", `"PodCliqueSet"`},
		{"metadata", name},
		{"spec", g.object(spec)},
	})
}

func (g *generator) clique(name string) string {
	g.odds = moods[g.rng.IntN(len(moods))]
	g.odds.wrong /= 4 // one refused value refuses the whole set
	g.budget = 10 + g.rng.IntN(60)
	spec := []member{
		{"roleName", quote(name)},
		{"replicas", fmt.Sprint(1 + g.rng.IntN(8))},
		{"podSpec", g.podSpec()},
	}
	members := []member{{"name", quote(name)}}
	if g.chance(0.95) {
		members = append(members, member{"spec", g.object(spec)})
	}
	return g.object(g.metadata(members))
}

func (g *generator) chance(p float64) bool { return g.rng.Float64() < p }

func pick[E any](g *generator, list []E) E { return list[g.rng.IntN(len(list))] }

func shuffled[E any](g *generator, list []E) []E {
	out := append([]E(nil), list...)
	g.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
