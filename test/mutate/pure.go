package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// A condition that changes nothing can be asked again with each of its mutants:
// so a probing build sees whether the whole of it comes out another way, and not
// only a part. The one thing that conditions of the core do change is when a node
// wants to be woken (Node.reached), and that can be put back.
const (
	waker     = "reached" // may be called all the same
	wakeField = "wake"    // because this is put back
	stepper   = "Steps"   // every step of a node begins here
)

// elsewhere are the functions of other packages that change nothing.
var elsewhere = map[string][]string{
	"slices":  {"Contains", "ContainsFunc", "Equal", "Index", "IndexFunc", "BinarySearch", "BinarySearchFunc"},
	"cmp":     {"Compare", "Or"},
	"strings": {"ToValidUTF8", "Contains", "HasPrefix", "HasSuffix"},
	"rule":    {"Off"},
	"record":  {"Ended", "Counter", "Incarnation", "MakeToken"},
}

// innocent tells whether evaluating e changes nothing outside of it.
func (f *finder) innocent(e ast.Node) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				ok = ok && (n.Tok == token.DEFINE || f.within(l, e))
			}
		case *ast.IncDecStmt:
			ok = ok && f.within(n.X, e)
		case *ast.CallExpr:
			ok = ok && f.innocentCall(n)
		case *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
			ok = false
		}
		return ok
	})
	return ok
}

// within: l is a variable declared inside of e.
func (f *finder) within(l ast.Expr, e ast.Node) bool {
	id, ok := l.(*ast.Ident)
	if !ok {
		return false
	}
	o := f.info.ObjectOf(id)
	return id.Name == "_" || o != nil && e.Pos() <= o.Pos() && o.Pos() < e.End()
}

func (f *finder) innocentCall(c *ast.CallExpr) bool {
	if f.info.Types[c.Fun].IsType() {
		return true
	}
	fun := c.Fun
	if x, ok := fun.(*ast.SelectorExpr); ok {
		fun = x.Sel
	}
	id, ok := fun.(*ast.Ident)
	if !ok {
		return false
	}
	switch o := f.info.Uses[id].(type) {
	case *types.Builtin:
		return slices.Contains([]string{"len", "cap", "min", "max"}, o.Name())
	case *types.Func:
		if o.Pkg() != f.pkg {
			return o.Pkg() != nil && slices.Contains(elsewhere[o.Pkg().Name()], o.Name())
		}
		if o.Name() == waker {
			return f.wakes
		}
		return f.innocentFunc(o)
	}
	return false
}

func (f *finder) innocentFunc(o *types.Func) bool {
	if v, known := f.innocents[o]; known {
		return v
	}
	d := f.decls[o]
	if d == nil || d.Body == nil {
		return false
	}
	f.innocents[o] = true // as far as a call of itself goes
	v := f.innocent(d)
	f.innocents[o] = v
	return v
}

// survey notes the functions of the package, and whether there is something to be
// woken.
func (f *finder) survey() {
	f.decls, f.innocents = map[*types.Func]*ast.FuncDecl{}, map[*types.Func]bool{}
	for _, file := range f.files {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if o, ok := f.info.Defs[fn.Name].(*types.Func); ok {
				f.decls[o] = fn
			}
			if fn.Name.Name == stepper && receiver(fn) == "Node" && len(fn.Recv.List[0].Names) == 1 {
				f.wakes = true
				f.steps = fn
			}
		}
	}
}

// condition finds the mutants of a condition that is used as a whole; more adds
// some of the whole.
func (f *finder) condition(e ast.Expr, more func()) {
	if f.asking || !f.innocent(e) {
		f.expr(e)
		more()
		return
	}
	f.asking = true
	first := len(f.all) + 1
	f.expr(e)
	more()
	f.asking = false
	if end := len(f.all) + 1; end > first {
		f.at(e).from, f.at(e).to = first, end
	}
}
