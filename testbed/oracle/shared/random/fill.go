package random

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"grovemigrator/oracle/layout"
)

// member is one key and value of a JSON object, both as text; the key is not quoted yet.
type member struct{ key, value string }

// object prints members in random order, for the order of keys must never matter.
func (g *generator) object(members []member) string {
	parts := make([]string, 0, len(members))
	for _, m := range shuffled(g, members) {
		parts = append(parts, g.key(m.key)+":"+m.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// key quotes a key, and now and then spells one of its letters as an escape.
func (g *generator) key(name string) string {
	if len(name) > 1 && name[0] >= 'a' && g.chance(g.odds.odd*0.02) {
		return fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
	}
	return quote(name)
}

// value prints a JSON value for a Go type; name is the field that it is for.
func (g *generator) value(t reflect.Type, name string) string {
	g.budget--
	if g.chance(g.odds.wrong) {
		return g.wrong(t)
	}
	if g.chance(g.odds.null) {
		return "null"
	}
	if layout.Custom(t) {
		return g.custom(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), name)
	case reflect.Struct:
		return g.structure(t)
	case reflect.Slice:
		return g.list(t, name)
	case reflect.Map:
		return g.dictionary(t)
	case reflect.Bool:
		return pick(g, []string{"true", "false"})
	case reflect.Int32, reflect.Int64:
		return g.integer(t, name)
	case reflect.String:
		return g.text(name)
	default:
		panic(fmt.Sprintf("%s: no rule to generate a value", t))
	}
}

// custom prints a value for a type that decodes itself.
func (g *generator) custom(t reflect.Type) string {
	switch t.String() {
	case "resource.Quantity":
		return g.quantity()
	case "intstr.IntOrString":
		if g.chance(0.6) {
			return g.integer(reflect.TypeFor[int32](), "port")
		}
		return g.text("port")
	case "v1.Time":
		return pick(g, []string{`"2024-05-06T07:08:09Z"`, `"2024-05-06T07:08:09+02:00"`, `"2024-02-29T23:59:59.123456789Z"`})
	case "v1.FieldsV1":
		// The bytes themselves are printed, so these have no white space and no escapes to be lost on the way.
		return pick(g, []string{`{}`, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `{"f:b":{},"f:a":{}}`})
	default:
		panic(fmt.Sprintf("%s: no rule to generate a value", t))
	}
}

// common are fields that decide about order, or without which a template would be dull.
var common = map[string]float64{
	"name": 0.8, "containers": 0.9, "containerPort": 0.9, "protocol": 0.5, "mountPath": 0.9,
	"devicePath": 0.9, "ip": 0.9, "topologyKey": 0.9, "whenUnsatisfiable": 0.7, "resources": 0.4,
	"limits": 0.5, "requests": 0.5, "env": 0.4, "volumes": 0.4,
}

func (g *generator) structure(t reflect.Type) string {
	if g.budget < 0 || g.chance(g.odds.empty) {
		return "{}"
	}
	members := g.fields(t, nil)
	if g.chance(g.odds.unknown) {
		members = append(members, g.unknownField(t, members))
	}
	return g.object(members)
}

func (g *generator) fields(t reflect.Type, members []member) []member {
	share := (3 + float64(t.NumField())/8) / float64(t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		name := layout.JSONName(t, field)
		if name == nil {
			continue
		}
		if *name == "" {
			members = g.fields(field.Type, members)
			continue
		}
		if probability, ok := common[*name]; g.chance(share) || ok && g.chance(probability) {
			members = append(members, member{*name, g.value(field.Type, *name)})
		}
	}
	if t.String() == "v1.PodSpec" && g.chance(0.05) && !has(members, "workloadRef") {
		// Known to 1.35 only, and dropped again by the newest minor that makes these lines.
		members = append(members, member{"workloadRef", g.value(reflect.TypeFor[workloadReference](), "")})
	}
	return members
}

// workloadReference is the field of 1.35 that 1.36 took away.
type workloadReference struct {
	Name               string `json:"name"`
	PodGroup           string `json:"podGroup"`
	PodGroupReplicaKey string `json:"podGroupReplicaKey"`
}

// unknownField is a field that the struct ignores: a Go name, other letters in upper case, or nonsense.
func (g *generator) unknownField(t reflect.Type, members []member) member {
	value := pick(g, []string{`1.5e400`, `{"a":[1,{}]}`, `"x"`, `[[]]`, `null`, `-0`})
	field := t.Field(g.rng.IntN(t.NumField()))
	candidates := []string{"futureField", field.Name, ""}
	if name := layout.JSONName(t, field); name != nil {
		candidates = append(candidates, strings.ToUpper(*name))
	}
	name := pick(g, candidates)
	if _, known := jsonNames(t)[name]; known || has(members, name) {
		name = "xFuture"
	}
	return member{name, value}
}

func jsonNames(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range t.NumField() {
		name := layout.JSONName(t, t.Field(i))
		switch {
		case name == nil:
		case *name == "":
			for inner := range jsonNames(t.Field(i).Type) {
				out[inner] = true
			}
		default:
			out[*name] = true
		}
	}
	return out
}

func has(members []member, key string) bool {
	for _, m := range members {
		if m.key == key {
			return true
		}
	}
	return false
}

func (g *generator) list(t reflect.Type, name string) string {
	if g.budget < 0 || g.chance(g.odds.empty) {
		return "[]"
	}
	elements := make([]string, 0, 4)
	for range 1 + g.rng.IntN(4) {
		elements = append(elements, g.value(t.Elem(), name))
	}
	return "[" + strings.Join(elements, ",") + "]"
}

func (g *generator) dictionary(t reflect.Type) string {
	if g.budget < 0 || g.chance(g.odds.empty) {
		return "{}"
	}
	var parts []string
	taken := map[string]bool{}
	for range 1 + g.rng.IntN(4) {
		name := "key"
		if t.Elem().Kind() != reflect.String {
			name = "resource"
		}
		key := g.text(name)
		// Two keys that decode to one string would make the result depend on a rule about duplicates.
		var decoded string
		if json.Unmarshal([]byte(key), &decoded) != nil || taken[decoded] {
			continue
		}
		taken[decoded] = true
		parts = append(parts, key+":"+g.value(t.Elem(), ""))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// wrong prints a value that Go refuses for the type (or, for a few of them, only looks as if).
func (g *generator) wrong(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if layout.Custom(t) {
		return pick(g, []string{"true", "{}", "[]", `"abc"`, `""`, `"1 Gi"`, "1.5", `"--1"`, `"1Zi"`, `"1e"`, "99999999999"})
	}
	switch t.Kind() {
	case reflect.String:
		return pick(g, []string{"1", "1.5", "true", "{}", "[]"})
	case reflect.Bool:
		return pick(g, []string{`"true"`, "0", "1", "{}", "[]"})
	case reflect.Int32:
		return pick(g, []string{"2147483648", "-2147483649", `"5"`, "1.0", "1e3", "true", "{}", "[]", "1.5"})
	case reflect.Int64:
		return pick(g, []string{"9223372036854775808", "-9223372036854775809", `"5"`, "1.0", "1E2", "false", "[]", "-1.5"})
	case reflect.Slice:
		return pick(g, []string{"{}", `"x"`, "1", "true", `""`})
	case reflect.Map:
		return pick(g, []string{"[]", `"x"`, "1", "true", `[{}]`})
	default:
		return pick(g, []string{"[]", `"x"`, "1", "true", `""`})
	}
}
