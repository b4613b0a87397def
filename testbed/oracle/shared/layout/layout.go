// Package layout describes, by reflection, every Go type that can be reached from a pod template.
//
// The description is what a port of the operator's hash needs and nothing more: the text that
// go-spew prints for a type, the order of its fields, and the JSON name that fills each of them.
package layout

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Layout is every named type reachable from a root.
type Layout struct {
	// Types maps a printed type name to its fields, or to the text of its underlying type. Of a field it has the Go
	// name, the JSON name that fills it, and its type as spew prints it. No JSON document can fill a field whose JSON
	// name is nil, and the fields of an embedded struct, whose name is "", share the object of the struct around it.
	Types map[string]any `json:"types"`
	// Custom names the types that decode themselves from JSON or from text, sorted.
	Custom []string `json:"custom"`
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// Of walks every type reachable from root, unexported fields included.
//
// It fails when two different types print the same name, or when it meets a kind of type that a hash cannot
// depend on.
func Of(root reflect.Type) (Layout, error) {
	w := walker{types: map[string]any{}, seen: map[string]reflect.Type{}}
	if err := w.visit(root); err != nil {
		return Layout{}, err
	}
	var names []string
	for name, t := range w.seen {
		if custom(t) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return Layout{w.types, names}, nil
}

type walker struct {
	types map[string]any
	seen  map[string]reflect.Type
}

func (w *walker) visit(t reflect.Type) error {
	if t.Name() != "" && t.PkgPath() != "" {
		if known, ok := w.seen[t.String()]; ok {
			if known != t {
				return fmt.Errorf("two types print as %s: %s and %s", t, known.PkgPath(), t.PkgPath())
			}
			return nil
		}
		w.seen[t.String()] = t
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.visitStruct(t)
	case reflect.Map:
		return w.visitAll(t, underlying(t), t.Key(), t.Elem())
	case reflect.Slice, reflect.Pointer:
		return w.visitAll(t, underlying(t), t.Elem())
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return w.visitAll(t, t.Kind().String())
	default:
		return fmt.Errorf("%s: the kind %s is not one that a pod template is known to contain", t, t.Kind())
	}
}

func (w *walker) visitAll(t reflect.Type, text string, parts ...reflect.Type) error {
	if t.PkgPath() != "" {
		w.types[t.String()] = text
	}
	for _, part := range parts {
		if err := w.visit(part); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visitStruct(t reflect.Type) error {
	if t.Name() == "" {
		return fmt.Errorf("a struct without a name: %s", t)
	}
	fields := make([][]any, 0, t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		fields = append(fields, []any{field.Name, jsonName(t, field), field.Type.String()})
	}
	w.types[t.String()] = fields
	for i := range t.NumField() {
		if err := w.visit(t.Field(i).Type); err != nil {
			return fmt.Errorf("%s.%s: %w", t, t.Field(i).Name, err)
		}
	}
	return nil
}

// custom tells whether encoding/json would hand the value over to a method of the type.
func custom(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler)
}

// jsonName is the JSON name that fills a field of owner, by the rules of encoding/json for tags, embedding and
// unexported fields.
func jsonName(owner reflect.Type, field reflect.StructField) *string {
	if custom(owner) {
		return nil
	}
	tag := field.Tag.Get("json")
	if tag == "-" {
		return nil
	}
	name, _, _ := strings.Cut(tag, ",")
	inlined := field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct
	if !field.IsExported() && !inlined {
		return nil
	}
	if name == "" && !inlined {
		name = field.Name
	}
	return &name
}

func underlying(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map:
		return "map[" + t.Key().String() + "]" + t.Elem().String()
	case reflect.Slice:
		return "[]" + t.Elem().String()
	default:
		return "*" + t.Elem().String()
	}
}
