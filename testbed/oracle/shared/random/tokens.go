package random

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// words are short so that keys collide and orders matter, and some of them sort unlike they look.
var words = map[string][]string{
	"":                  {"a", "b", "main", "value", "10", "9", "/etc/x", "a b", "true", "null", "v1", "0"},
	"name":              {"a", "b", "B", "c", "main", "sidecar", "worker-10", "worker-9", "é", "z", "_"},
	"key":               {"app", "a", "B", "b", "app.kubernetes.io/name", "10", "9", "a-b", "a.b", "a/b", "é", "Z"},
	"resource":          {"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "rdma/ib", "a", "Z"},
	"image":             {"registry.example/inference:1.4", "nginx", "app@sha256:0000", "python:3.12-slim"},
	"mountPath":         {"/", "/a", "/a/b", "/a-b", "/models", "/dev/shm", "/Z", "/é"},
	"devicePath":        {"/dev/a", "/dev/b", "/dev/B", "/dev/10", "/dev/9"},
	"ip":                {"127.0.0.1", "10.0.0.2", "10.0.0.10", "::1", "fe80::1"},
	"topologyKey":       {"zone", "host", "rack", "topology.kubernetes.io/zone"},
	"whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
	"protocol":          {"TCP", "UDP", "SCTP"},
	"port":              {"http", "grpc", "8080", "25%", "0"},
}

// pieces are JSON text for the inside of a string, chosen to look like the dump or like the escapes in it.
var pieces = []string{
	`é`, `日本`, `😀`, "\u00a0", "\u2028", "\u007f", "\ufeff", "\uffff", "\U0010ffff", ` `, `  `, `\t`, `\n`, `\r\n`, `\u0000`, `\u001f`,
	`\"`, `\\`, `\/`, `/`, `<`, `>`, `&`, `\u003c`, `\b`, `\f`, `é`, `\u00E9`, `\ud83d\ude00`, `\ud83d`, `\ude00`,
	`\ude00\ud83d`, `\ud83d\u0041`, `\ufffd`, `}`, `{`, `]`, `[`, `<nil>`, ` Name:(string)x`, `(string)`, `map[a:b]`, `%v`, `\u0025`,
	`$(VAR)`, `'`, "`", `null`, `0`, `-1`, `x`, `Y`, `\\u0041`, `\\n`,
}

// text prints a string token for a field.
func (g *generator) text(name string) string {
	if g.chance(g.odds.empty * 0.3) {
		return `""`
	}
	if !g.chance(g.odds.odd * 0.5) {
		list, ok := words[name]
		if !ok {
			list = words[""]
		}
		return quote(pick(g, list))
	}
	var inside strings.Builder
	for range 1 + g.rng.IntN(5) {
		inside.WriteString(pick(g, pieces))
	}
	return `"` + inside.String() + `"`
}

func (g *generator) integer(t reflect.Type, name string) string {
	switch {
	case g.chance(g.odds.odd * 0.2):
		if t.Kind() == reflect.Int64 {
			return pick(g, []string{"9223372036854775807", "-9223372036854775808", "-0", "4294967296"})
		}
		return pick(g, []string{"2147483647", "-2147483648", "-0"})
	case name == "containerPort" || name == "port":
		return pick(g, []string{"80", "8080", "443", "9", "10"})
	case g.chance(0.2):
		return "0"
	default:
		return fmt.Sprint(g.rng.IntN(2000) - 100)
	}
}

var (
	plainQuantities = []string{"1", "2", "500m", "100m", "250m", "1Gi", "8Gi", "64Gi", "80Gi", "512Mi", "100Mi", "1500m", "1k", "8", "16", "0", "1Ti"}
	suffixes        = []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "e0", "E+2", "e-12"}
	brokenSuffixes  = []string{"K", "ki", "i", "e", "mi", "g", "e1.5", "EE", "e9999999999999999999", "kk", "1", " ", "Zi", "E-", "+1"}
	spaces          = []string{" ", "  ", "\u00a0", "\u3000", "\u0085", "\u2003"}
)

// quantity prints a number or a string. It never has escapes: Go parses the raw token, so that an escape
// is an error to Go alone, and no API server writes one. Nor has it an exponent that is both large and
// legal: for one like 1e-99999999 Go computes for hours.
func (g *generator) quantity() string {
	if !g.chance(0.2 + g.odds.odd) {
		return quote(pick(g, plainQuantities))
	}
	if g.chance(0.2) {
		return g.number()
	}
	text := pick(g, []string{"", "", "", "+", "-"}) + g.digits() + pick(g, suffixes)
	if g.chance(g.odds.wrong * 5) {
		text = g.digits() + pick(g, brokenSuffixes)
	}
	if g.chance(0.05) {
		text = pick(g, spaces) + text + pick(g, spaces)
	}
	return `"` + text + `"`
}

// digits prints an integer or a fraction, with zeros where they may or may not count.
func (g *generator) digits() string {
	whole := pick(g, []string{"", "0", "00", "1", "8", "10", "1000", "1024", "1000000"})
	if g.chance(0.5) {
		whole = pick(g, []string{"", "0"}) + g.run(1+g.rng.IntN(pick(g, []int{3, 6, 12, 22})))
	}
	switch g.rng.IntN(6) {
	case 0:
		return whole + "."
	case 1:
		return whole + "." + g.run(1+g.rng.IntN(pick(g, []int{3, 10, 20})))
	case 2:
		return whole + "." + pick(g, []string{"0", "5", "50", "000", "25", "125", "001", "0000000001"})
	default:
		return whole
	}
}

// number prints a JSON number, in the spellings that JSON allows.
func (g *generator) number() string {
	whole := pick(g, []string{"0", "1", "2", "8", "10", "1000", "123456789", "1234567890123456789012"})
	fraction := pick(g, []string{"", "", "", ".0", ".5", ".25", ".000", ".0000000000001"})
	exponent := pick(g, []string{"", "", "", "e3", "E3", "e+2", "e-3", "E-10", "e0", "e00"})
	return pick(g, []string{"", "", "-"}) + whole + fraction + exponent
}

func (g *generator) run(length int) string {
	out := make([]byte, length)
	for i := range out {
		out[i] = byte('0' + g.rng.IntN(10))
	}
	return string(out)
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}
