package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Set is a package with all its mutants built in.
type Set struct {
	Mutants []Mutant
	Skipped map[string]string // function → why it is not mutated
	Files   map[string][]byte // path of a file → what takes its place
	Probing map[string][]byte // the same for a build that probes
}

// mutate finds the mutants of a package and writes it with all of them in it,
// each behind a switch.
func mutate(root, pkg string) (*Set, error) {
	listed, err := listPackages(root, pkg)
	if err != nil {
		return nil, err
	}
	me := listed[len(listed)-1] // dependencies come first
	sources := map[string][]byte{}
	for _, name := range me.GoFiles {
		path := filepath.Join(me.Dir, name)
		if sources[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	exports := map[string]string{}
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	return build(me.ImportPath, sources, exports)
}

type listedPackage struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// listPackages asks the go command for a package and all it imports.
func listPackages(root, pkg string) ([]listedPackage, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", pkg)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var all []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// build rewrites the sources of one package.
func build(path string, sources map[string][]byte, exports map[string]string) (*Set, error) {
	f := &finder{
		fset: token.NewFileSet(), source: sources, nodes: map[ast.Node]*rewrite{},
		skipped: map[string]string{}, imports: map[string]bool{},
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	names := slices.Sorted(maps.Keys(sources))
	for _, name := range names {
		file, err := parser.ParseFile(f.fset, name, sources[name], parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		f.files = append(f.files, file)
	}
	conf := types.Config{Importer: importer.ForCompiler(f.fset, "gc", func(path string) (io.ReadCloser, error) {
		name := exports[path]
		if name == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(name)
	})}
	var err error
	if f.pkg, err = conf.Check(path, f.fset, f.files, f.info); err != nil {
		return nil, err
	}
	f.survey()
	set := &Set{Files: map[string][]byte{}, Probing: map[string][]byte{}, Skipped: f.skipped}
	for i, file := range f.files {
		f.file = filepath.Base(names[i])
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				f.function(fn)
			}
		}
	}
	set.Mutants = f.all
	for probing, files := range map[bool]map[string][]byte{false: set.Files, true: set.Probing} {
		f.probing = probing
		for i, file := range f.files {
			files[names[i]] = f.rewritten(names[i], file)
		}
		files[filepath.Join(filepath.Dir(names[0]), "mx.go")] = f.helpers()
	}
	return set, nil
}

// rewritten is a file with its functions rewritten.
func (f *finder) rewritten(name string, file *ast.File) []byte {
	var out bytes.Buffer
	src, at := f.source[name], 0
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		from, to := f.offset(fn.Body.Pos()), f.offset(fn.Body.End())
		out.Write(src[at:from])
		body := f.render(src, fn.Body)
		if f.probing && fn == f.steps {
			body = "{ mxNode = " + fn.Recv.List[0].Names[0].Name + ";" + body[1:]
		}
		out.WriteString(body)
		at = to
	}
	out.Write(src[at:])
	return out.Bytes()
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// render is the text of a node with all its parts rewritten.
func (f *finder) render(src []byte, n ast.Node) string {
	var out strings.Builder
	at := f.offset(n.Pos())
	var texts []string
	for _, c := range children(n) {
		out.Write(src[at:f.offset(c.Pos())])
		text := f.render(src, c)
		texts = append(texts, text)
		out.WriteString(text)
		at = f.offset(c.End())
	}
	out.Write(src[at:f.offset(n.End())])
	text := out.String()
	r := f.nodes[n]
	if r == nil {
		return text
	}
	if r.parts != nil {
		if _, call := n.(*ast.CallExpr); call {
			texts = texts[1:] // the first is what is called
		}
		text = r.parts(texts)
	}
	for _, wrap := range r.wraps {
		text = wrap(text)
	}
	if f.probing && r.to > 0 {
		text = fmt.Sprintf("mxAsk(%d, %d, func() bool { return %s })", r.from, r.to, text)
	}
	return text
}

// children are the parts of a node, in order.
func children(n ast.Node) []ast.Node {
	var out []ast.Node
	ast.Inspect(n, func(c ast.Node) bool {
		if c == nil || c == n {
			return c == n
		}
		switch c.(type) {
		case *ast.Comment, *ast.CommentGroup:
		default:
			out = append(out, c)
		}
		return false
	})
	slices.SortStableFunc(out, func(a, b ast.Node) int { return int(a.Pos() - b.Pos()) })
	return out
}

// parent is the node that e is a part of.
func parent(file *ast.File, e ast.Node) ast.Node {
	var path []ast.Node
	found := ast.Node(file)
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		if n == e && len(path) > 0 {
			found = path[len(path)-1]
		}
		path = append(path, n)
		return true
	})
	return found
}

// helpers is the file with the switch.
func (f *finder) helpers() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "package %s\n\nimport (\n\t\"cmp\"\n", f.pkg.Name())
	delete(f.imports, "cmp")
	for _, p := range slices.Sorted(maps.Keys(f.imports)) {
		fmt.Fprintf(&out, "\t%q\n", p)
	}
	out.WriteString(")\n")
	fmt.Fprintf(&out, helperText, f.probing, len(f.all)+1)
	if f.wakes {
		out.WriteString(wakeText)
	} else {
		out.WriteString("func mxWake() int { return 0 }\n\nfunc mxWakeAt(int) {}\n\n")
	}
	for i, t := range f.types {
		fmt.Fprintf(&out, "type mxType%d = %s\n", i, t)
	}
	return out.Bytes()
}

// helperText is the switch and all that asks it. A mutant differs from the core
// only from the instant on at which a switch would change a value: a probing
// build notes those, so that schedules in which there is none need not be played.
const helperText = `
const (
	mxProbing = %v
	mxEnd     = %d
)

var (
	mx     int
	mxNow  = 1
	mxLast [mxEnd]int
	mxList []int

	mxWatched [mxEnd]bool

	mxFrom, mxTo int   // the condition being asked
	mxParts      []int // mutants that changed a part of it, or of one around it
)

// ChooseMutant switches one mutant on; 0 is none.
func ChooseMutant(n int) { mx = n }

// WatchMutants says which ones Differing tells of.
func WatchMutants(all []int) {
	for _, n := range all {
		mxWatched[n] = true
	}
}

// Differing lists the mutants that would have differed since the last call.
func Differing() []int {
	out := mxList
	mxList = nil
	mxNow++
	mxFrom, mxTo, mxParts = 0, 0, mxParts[:0]
	return out
}

func mxSaw(n int, differs bool) {
	switch {
	case !differs || mx != 0 || !mxWatched[n] || mxLast[n] == mxNow:
	case mxFrom <= n && n < mxTo:
		mxParts = append(mxParts, n)
	default:
		mxLast[n] = mxNow
		mxList = append(mxList, n)
	}
}

// mxAsk asks a condition, and then again with each of its mutants that changed a
// part of it. When the node wants to be woken is put back each time.
func mxAsk(from, to int, ask func() bool) bool {
	if mx != 0 {
		return ask()
	}
	oldFrom, oldTo, at := mxFrom, mxTo, len(mxParts)
	mxFrom, mxTo = from, to
	before := mxWake()
	c := ask()
	after := mxWake()
	mxFrom, mxTo = oldFrom, oldTo
	for i := at; i < len(mxParts); i++ {
		n := mxParts[i]
		if mxLast[n] == mxNow {
			continue
		}
		mxWakeAt(before)
		other, ended := mxWith(n, ask)
		if !ended || other != c || mxWake() != after {
			mxLast[n] = mxNow
			mxList = append(mxList, n)
		}
	}
	mxParts = mxParts[:at]
	mxWakeAt(after)
	return c
}

func mxWith(n int, ask func() bool) (c, ended bool) {
	mx = n
	defer func() {
		mx = 0
		if !ended {
			recover()
		}
	}()
	return ask(), true
}

func mxOff(n int) bool {
	if mxProbing {
		mxSaw(n, true)
	}
	return mx != n
}

func mxNot(n int, c bool) bool {
	if mxProbing {
		mxSaw(n, true)
	}
	return c != (mx == n)
}

func mxTrue(n int, c bool) bool {
	if mxProbing {
		mxSaw(n, !c)
	}
	return c || mx == n
}

func mxFalse(n int, c bool) bool {
	if mxProbing {
		mxSaw(n, c)
	}
	return c && mx != n
}

func mxElse(n int, c, other bool) bool {
	if mxProbing {
		mxSaw(n, c != other)
	}
	if mx == n {
		return other
	}
	return c
}

func mxKeep[T comparable](n int, old, new T) T {
	if mxProbing {
		mxSaw(n, old != new)
	}
	if mx == n {
		return old
	}
	return new
}

func mxKeepAny[T any](n int, old, new T) T {
	if mxProbing {
		mxSaw(n, true)
	}
	if mx == n {
		return old
	}
	return new
}

func mxZero[T comparable](n int, v T) T {
	var zero T
	if mxProbing {
		mxSaw(n, v != zero)
	}
	if mx == n {
		return zero
	}
	return v
}

func mxZeroAny[T any](n int, v T) T {
	var zero T
	if mxProbing {
		mxSaw(n, true)
	}
	if mx == n {
		return zero
	}
	return v
}

type mxInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func mxPlus[T mxInteger](n int, v T) T {
	if mxProbing {
		mxSaw(n, true)
	}
	if mx == n {
		return v + 1
	}
	return v
}

func mxMinus[T mxInteger](n int, v T) T {
	if mxProbing {
		mxSaw(n, true)
	}
	if mx == n {
		return v - 1
	}
	return v
}

func mxAdd[T mxInteger](n int, a, b T) T {
	if mxProbing {
		mxSaw(n, b != 0)
	}
	if mx == n {
		return a - b
	}
	return a + b
}

func mxSub[T mxInteger](n int, a, b T) T {
	if mxProbing {
		mxSaw(n, b != 0)
	}
	if mx == n {
		return a + b
	}
	return a - b
}

func mxLess[T cmp.Ordered](n int, a, b T) bool {
	if mxProbing {
		mxSaw(n, a == b)
	}
	return a < b || mx == n && a == b
}

func mxLessEq[T cmp.Ordered](n int, a, b T) bool {
	if mxProbing {
		mxSaw(n, a == b)
	}
	return a < b || mx != n && a == b
}

func mxMore[T cmp.Ordered](n int, a, b T) bool {
	if mxProbing {
		mxSaw(n, a == b)
	}
	return a > b || mx == n && a == b
}

func mxMoreEq[T cmp.Ordered](n int, a, b T) bool {
	if mxProbing {
		mxSaw(n, a == b)
	}
	return a > b || mx != n && a == b
}

func mxMin[T cmp.Ordered](n int, a, b T) T {
	if mxProbing {
		mxSaw(n, a != b)
	}
	if mx == n {
		return max(a, b)
	}
	return min(a, b)
}

func mxMax[T cmp.Ordered](n int, a, b T) T {
	if mxProbing {
		mxSaw(n, a != b)
	}
	if mx == n {
		return min(a, b)
	}
	return max(a, b)
}

`

// wakeText goes with a package that has something to be woken.
const wakeText = `
var mxNode *Node

func mxWake() int {
	if mxNode == nil {
		return 0
	}
	return int(mxNode.` + wakeField + `)
}

func mxWakeAt(t int) {
	if mxNode != nil {
		mxNode.` + wakeField + ` = Time(t)
	}
}

`
