package rotatest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// options are the optional interfaces of stores and sources.
var options = map[string][]reflect.Type{
	"store.go":  {reflect.TypeFor[rota.Classifier](), reflect.TypeFor[rota.Identifier](), reflect.TypeFor[rota.Fresher](), reflect.TypeFor[rota.Opener](), reflect.TypeFor[rota.Warner](), reflect.TypeFor[rota.Checker]()},
	"source.go": {reflect.TypeFor[rota.Opener](), reflect.TypeFor[rota.Lister](), reflect.TypeFor[rota.Preparer](), reflect.TypeFor[rota.Checker](), reflect.TypeFor[rota.Binder](), reflect.TypeFor[rota.Meter]()},
	"dead.go":   {reflect.TypeFor[rota.DeadLetters]()},
}

// notOptions are interfaces that are something else.
var notOptions = []string{"Store", "Source"}

// TestOptionsAreListed shows that options has every optional interface, so that the
// wrappers must forward a new one too.
func TestOptionsAreListed(t *testing.T) {
	for file, want := range options {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../"+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); !ok || !spec.Name.IsExported() || slices.Contains(notOptions, spec.Name.Name) {
				return true
			}
			if !slices.ContainsFunc(want, func(o reflect.Type) bool { return o.Name() == spec.Name.Name }) {
				t.Errorf("%s has an interface %s, which options does not list", file, spec.Name)
			}
			return true
		})
	}
}

// TestWrappersHideNothing calls each optional method of each wrapper: the answer must
// be that of the store or source inside.
func TestWrappersHideNothing(t *testing.T) {
	var h History
	for file, wrappers := range map[string][]any{
		"store.go":  {Faulty(knowing{}, 1), h.Wrap(knowing{})},
		"source.go": {&counted{wrapped: wrapped{knowing{}}}, &guarded{wrapped: wrapped{knowing{}}}},
		"dead.go":   {&counted{wrapped: wrapped{knowing{}}}, &guarded{wrapped: wrapped{knowing{}}}},
	} {
		for _, w := range wrappers {
			for _, option := range options[file] {
				if !reflect.TypeOf(w).Implements(option) {
					t.Errorf("%T is no %v", w, option)
					continue
				}
				for i := range option.NumMethod() {
					if got, want := answer(w, option.Method(i)), answer(knowing{}, option.Method(i)); got != want {
						t.Errorf("%T answers %s with %s, and what is inside with %s", w, option.Method(i).Name, got, want)
					}
				}
			}
		}
	}
}

// answer calls a method with a context, and with zero values for other arguments.
func answer(on any, m reflect.Method) string {
	var out []any
	var args []reflect.Value
	for i := range m.Type.NumIn() {
		arg := reflect.Zero(m.Type.In(i))
		if m.Type.In(i) == reflect.TypeFor[context.Context]() {
			arg = reflect.ValueOf(background)
		}
		args = append(args, arg)
	}
	for _, v := range reflect.ValueOf(on).MethodByName(m.Name).Call(args) {
		out = append(out, v.Interface())
	}
	return fmt.Sprint(out...)
}

var errKnowing = errors.New("known")

// knowing has every optional method, and never returns a default.
type knowing struct {
	rota.Store
	rota.Source
}

func (knowing) Class() rota.Class                        { return rota.ClassA }
func (knowing) Identity(context.Context) (string, error) { return "me", nil }
func (knowing) Open(context.Context) error               { return errKnowing }
func (knowing) Fresh(context.Context) (bool, error)      { return true, nil }
func (knowing) Warnings() []string                       { return []string{"beware"} }
func (knowing) Bind(string) error                        { return errKnowing }
func (knowing) Check() error                             { return errKnowing }
func (knowing) Read(context.Context, []string) ([]rota.Reading, error) {
	return []rota.Reading{{Partition: "p"}}, errKnowing
}
func (knowing) ListsAll() bool                                { return true }
func (knowing) Prepare(context.Context, rota.Partition) error { return errKnowing }
func (knowing) DropLetter(context.Context, string) error      { return errKnowing }
func (knowing) RenewLetter(context.Context, rota.Letter) error {
	return errKnowing
}
func (knowing) Letters(context.Context, string) iter.Seq2[rota.Letter, error] { return nil }

// TestWrappersKnowNothingThemselves shows that the wrapper of a store without optional
// methods returns rota's defaults.
func TestWrappersKnowNothingThemselves(t *testing.T) {
	var h History
	plain := &keepOpen{NewMemStore()} // has the five verbs and nothing else
	for _, w := range []rota.Store{Faulty(plain, 1), h.Wrap(plain)} {
		class := w.(rota.Classifier).Class()
		name, err := w.(rota.Identifier).Identity(background)
		fresh, ferr := w.(rota.Fresher).Fresh(background)
		if err := w.(rota.Opener).Open(background); err != nil {
			t.Errorf("%T: Open: %v", w, err)
		}
		if class != rota.ClassUnknown || name != "" || fresh || err != nil || ferr != nil {
			t.Errorf("%T: class %v, identity %q (%v), fresh %v (%v)", w, class, name, err, fresh, ferr)
		}
	}
}

// TestOptionsAreCutOffToo shows that optional methods have faults like any call.
func TestOptionsAreCutOffToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Faulty(knowing{}, 1)
		f.Cut()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if name, err := f.Identity(ctx); !lost(err) || name != "" {
			t.Errorf("Identity: %q, %v", name, err)
		}
		if fresh, err := f.Fresh(ctx); !lost(err) || fresh {
			t.Errorf("Fresh: %v, %v", fresh, err)
		}
		if err := f.Open(ctx); !lost(err) {
			t.Errorf("Open: %v", err)
		}
		f.Heal()
		f.Chance(LostAnswer, 1)
		if name, err := f.Identity(background); !lost(err) || name != "" {
			t.Errorf("Identity: %q, %v", name, err)
		}
		if fresh, err := f.Fresh(background); !lost(err) || fresh {
			t.Errorf("Fresh: %v, %v", fresh, err)
		}
	})
}
