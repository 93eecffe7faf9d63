package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A Mutant is one mechanical change of the core.
type Mutant struct {
	N    int    // chosen by, from 1 on
	ID   string // function: operator: source text #occurrence
	File string
	Func string
	Op   string
}

// The operators, in the order in which reports list them.
var operators = []string{"not", "always", "never", "drop", "swap", "bound", "flip", "plus", "minus", "sign", "min", "cut", "keep", "zero"}

// means says what they do.
var means = map[string]string{
	"not":    "not: a comparison, call or variable of a condition is negated",
	"always": "always: a condition is true",
	"never":  "never: a condition is false",
	"drop":   "drop: an operand of && is true, of \\|\\| false",
	"swap":   "swap: && becomes \\|\\| and the other way round",
	"bound":  "bound: < becomes <=, and so on",
	"flip":   "flip: true becomes false and the other way round",
	"plus":   "plus: a number is greater by one",
	"minus":  "minus: a number is less by one",
	"sign":   "sign: + becomes - and the other way round",
	"min":    "min: min becomes max and the other way round",
	"cut":    "cut: a statement is left out",
	"keep":   "keep: one of several assignments of a statement is left out",
	"zero":   "zero: a field of a composite literal is left out",
}

// excluded tells whether a function is not mutated, and why. By name and not by
// file: functions move.
func excluded(recv, name string) (why string) {
	switch {
	case recv == "encoder" || recv == "Ranks" || recv == "numbers" || recv == "Shape",
		strings.HasPrefix(name, "encode"), name == "Shape", name == "shape", name == "longest", name == "slowest":
		return "it encodes states for the explorer, no schedule runs it"
	case name == "Clone":
		return "it copies states for the explorer, no schedule runs it"
	case name == "String", name == "Error":
		return "it makes words for people"
	case name == "assert":
		return "an assertion that holds is not seen"
	case name == "Compares":
		return "only stores of harnesses ask it, and it is true unless a rule is taken out"
	case name == "writeID":
		return "it is a hash: another one is as good"
	}
	return ""
}

// A finder walks over one package and notes every place where a mutation can be
// switched on, and how the switch is written there.
type finder struct {
	fset    *token.FileSet
	files   []*ast.File
	info    *types.Info
	pkg     *types.Package
	source  map[string][]byte // by file name
	all     []Mutant
	skipped map[string]string // function → why
	nodes   map[ast.Node]*rewrite
	types   []string // of which the helpers need names: alias i stands for types[i]
	imports map[string]bool

	file string
	fn   string
	seen map[string]int

	decls     map[*types.Func]*ast.FuncDecl
	innocents map[*types.Func]bool
	wakes     bool
	steps     *ast.FuncDecl // where a node's step begins
	probing   bool          // how it is written
	asking    bool          // inside of a condition that is asked as a whole
}

// A rewrite is what becomes of the text of a node.
type rewrite struct {
	parts func(texts []string) string // of a binary expression or call, from its operands
	wraps []func(string) string       // the first is the innermost

	// A condition that can be asked again with each of its mutants, from ≤ n < to.
	from, to int
}

func (f *finder) at(n ast.Node) *rewrite {
	r := f.nodes[n]
	if r == nil {
		r = &rewrite{}
		f.nodes[n] = r
	}
	return r
}

// wrap notes one mutant of a node, written as a format with its number and the
// text of the node.
func (f *finder) wrap(n ast.Node, op, format string) {
	f.wrapAs(n, op, f.text(n), format)
}

func (f *finder) wrapAs(n ast.Node, op, text, format string) {
	num := f.add(op, text)
	r := f.at(n)
	r.wraps = append(r.wraps, func(s string) string { return fmt.Sprintf(format, num, s) })
}

// add numbers a mutant.
func (f *finder) add(op, text string) int {
	if r := []rune(text); len(r) > longestText {
		text = string(r[:longestText]) + "…"
	}
	id := f.fn + ": " + op + ": " + text
	f.seen[id]++
	m := Mutant{N: len(f.all) + 1, ID: fmt.Sprintf("%s #%d", id, f.seen[id]), File: f.file, Func: f.fn, Op: op}
	f.all = append(f.all, m)
	return m.N
}

// longestText is how much of the source an identity quotes.
const longestText = 120

// text is the source of a node on one line.
func (f *finder) text(n ast.Node) string { return f.marked(n, nil) }

// marked is the source of a node on one line, with one of its parts in braces.
func (f *finder) marked(n, part ast.Node) string {
	src := f.source[f.fset.Position(n.Pos()).Filename]
	off := func(p token.Pos) int { return f.fset.Position(p).Offset }
	s := string(src[off(n.Pos()):off(n.End())])
	if part != nil {
		from, to := off(part.Pos())-off(n.Pos()), off(part.End())-off(n.Pos())
		s = s[:from] + "{" + s[from:to] + "}" + s[to:]
	}
	var lines []string
	for line := range strings.Lines(s) {
		code, _, _ := strings.Cut(line, "// ")
		lines = append(lines, code)
	}
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
}

// alias returns a name for a type that any file of the package can use.
func (f *finder) alias(t types.Type) string {
	name := types.TypeString(t, func(p *types.Package) string {
		if p == f.pkg {
			return ""
		}
		f.imports[p.Path()] = true
		return p.Name()
	})
	i := slices.Index(f.types, name)
	if i < 0 {
		i = len(f.types)
		f.types = append(f.types, name)
	}
	return fmt.Sprintf("mxType%d", i)
}

// function finds the mutants of one function.
func (f *finder) function(d *ast.FuncDecl) {
	recv := receiver(d)
	f.fn, f.seen = d.Name.Name, map[string]int{}
	if recv != "" {
		f.fn = recv + "." + f.fn
	}
	if why := excluded(recv, d.Name.Name); why != "" {
		f.skipped[f.fn] = why
		return
	}
	f.block(d.Body)
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func (f *finder) block(b *ast.BlockStmt) { f.list(b.List, nil) }

// list takes the statements of a block. guards is the if whose body it is, if
// that is all it is.
func (f *finder) list(all []ast.Stmt, guards *ast.IfStmt) {
	for i, s := range all {
		last := i == len(all)-1
		drop := f.droppable(s, guards, last && len(all) > 1, len(all) == 1)
		if drop && !f.plain(s) {
			f.wrap(s, "cut", "if mxOff(%d) { %s }")
		}
		f.stmt(s)
		if a, ok := s.(*ast.AssignStmt); ok && drop && f.plain(s) {
			f.keep(a.Lhs[0], a.Rhs[0], "cut")
		}
	}
}

// droppable tells whether the program still compiles, and differs, without s.
func (f *finder) droppable(s ast.Stmt, guards *ast.IfStmt, lastOfSome, only bool) bool {
	if only && guards != nil && guards.Else == nil {
		if _, known := f.fold(guards.Cond); !known {
			return false // that is the condition's "never"
		}
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || f.dead(s.Rhs...) {
			return false
		}
		if s.Tok != token.ASSIGN || len(s.Lhs) == 1 || len(s.Rhs) == 1 {
			return !(len(s.Lhs) == 1 && blank(s.Lhs[0]))
		}
		return false // one by one, see assign
	case *ast.IncDecStmt:
		return true
	case *ast.ExprStmt:
		return !f.never(s.X)
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.ReturnStmt:
		return guards != nil && guards.Else == nil && lastOfSome
	}
	return false
}

func blank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// never: a call that is not touched at all.
func (f *finder) never(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := c.Fun.(*ast.Ident)
	return ok && (id.Name == "assert" || id.Name == "panic")
}

func (f *finder) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		f.block(s)
	case *ast.IfStmt:
		f.ifStmt(s)
	case *ast.ForStmt:
		f.stmt(s.Init)
		if s.Cond != nil {
			if _, known := f.fold(s.Cond); !known {
				f.condition(s.Cond, func() { f.wrap(s.Cond, "never", "mxFalse(%d, %s)") })
			}
		}
		f.block(s.Body)
	case *ast.RangeStmt:
		f.expr(s.X)
		f.block(s.Body)
	case *ast.SwitchStmt:
		f.stmt(s.Init)
		if s.Tag != nil {
			f.expr(s.Tag)
		}
		for _, c := range s.Body.List {
			f.clause(c.(*ast.CaseClause), s.Tag == nil)
		}
	case *ast.AssignStmt:
		f.assign(s)
	case *ast.ExprStmt:
		if !f.never(s.X) {
			f.expr(s.X)
		}
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			f.expr(e)
		}
	case *ast.DeclStmt, *ast.IncDecStmt, *ast.BranchStmt:
	default:
		panic(fmt.Sprintf("%s: a %T, which this tool does not know yet", f.fset.Position(s.Pos()), s))
	}
}

func (f *finder) ifStmt(s *ast.IfStmt) {
	f.stmt(s.Init)
	value, known := f.fold(s.Cond)
	if !known {
		f.condition(s.Cond, func() {
			f.wrap(s.Cond, "always", "mxTrue(%d, %s)")
			f.wrap(s.Cond, "never", "mxFalse(%d, %s)")
		})
	}
	if !known || value {
		f.list(s.Body.List, s)
	}
	if s.Else != nil {
		f.stmt(s.Else)
	}
}

func (f *finder) clause(c *ast.CaseClause, conditions bool) {
	for _, e := range c.List {
		value, known := f.fold(e)
		if conditions && known && !value {
			if len(c.List) == 1 {
				return // what a rule taken out would do
			}
			continue
		}
		if conditions && !known {
			f.condition(e, func() {
				f.wrap(e, "always", "mxTrue(%d, %s)")
				f.wrap(e, "never", "mxFalse(%d, %s)")
			})
		}
	}
	f.list(c.Body, nil)
}

// assign takes the right side, and each pair of several.
func (f *finder) assign(s *ast.AssignStmt) {
	for _, e := range s.Lhs { // the indices
		if x, ok := e.(*ast.IndexExpr); ok {
			f.index(x.Index)
		}
	}
	for _, e := range s.Rhs {
		f.expr(e)
	}
	if s.Tok != token.ASSIGN || len(s.Lhs) == 1 || len(s.Lhs) != len(s.Rhs) {
		return
	}
	for i, l := range s.Lhs {
		if blank(l) || f.dead(s.Rhs[i]) {
			continue
		}
		f.keep(l, s.Rhs[i], "keep")
	}
}

// keep leaves one assignment out: what is assigned is what was there.
func (f *finder) keep(l, r ast.Expr, op string) {
	t, old := f.info.TypeOf(l), f.text(l)
	helper := "mxKeep"
	if !types.Comparable(t) {
		helper = "mxKeepAny"
	}
	format := fmt.Sprintf("%s[%s](%%d, %s, %%s)", helper, f.alias(t), strings.ReplaceAll(old, "%", "%%"))
	f.wrapAs(r, op, old+" = "+f.text(r), format)
}

// plain: one variable is assigned, and nothing is called for it.
func (f *finder) plain(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
		return false
	}
	return f.pure(a)
}

// pure: nothing is called but what belongs to the language.
func (f *finder) pure(e ast.Node) bool {
	pure := true
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && !f.info.Types[c.Fun].IsType() && !f.info.Types[c.Fun].IsBuiltin() {
			pure = false
		}
		return true
	})
	return pure
}

// fold works a condition out with every rule in, as in the product.
func (f *finder) fold(e ast.Expr) (value, known bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.fold(e.X)
	case *ast.CallExpr:
		if isSwitch(e) {
			return false, true
		}
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			v, k := f.fold(e.X)
			return !v, k
		}
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			break
		}
		decides := e.Op == token.LOR // the value that settles it
		x, xk := f.fold(e.X)
		y, yk := f.fold(e.Y)
		switch {
		case xk && x == decides, yk && y == decides:
			return decides, true
		case xk && yk:
			return !decides, true
		}
	}
	return false, false
}

// dead: all that is assigned is what a rule taken out would do.
func (f *finder) dead(all ...ast.Expr) bool {
	for _, e := range all {
		if v, known := f.fold(e); !known || v {
			return false
		}
	}
	return len(all) > 0
}

// isSwitch: the call asks whether a rule is taken out, rule.X.Off().
func isSwitch(c *ast.CallExpr) bool {
	off, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || off.Sel.Name != "Off" {
		return false
	}
	x, ok := off.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := x.X.(*ast.Ident)
	return ok && pkg.Name == "rule"
}

// expr finds the mutants of an expression whose value is used.
func (f *finder) expr(e ast.Expr) {
	if _, known := f.fold(e); known {
		return // a defect's
	}
	if e != nil && !f.asking && f.isBool(e) && f.innocent(e) {
		f.condition(e, func() {})
		return
	}
	switch e := e.(type) {
	case nil:
	case *ast.ParenExpr:
		f.expr(e.X)
	case *ast.UnaryExpr:
		if e.Op != token.AND || !addressable(e.X) {
			f.expr(e.X)
		}
	case *ast.StarExpr:
		f.expr(e.X)
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.CallExpr:
		f.call(e)
	case *ast.BasicLit:
		f.integer(e)
	case *ast.Ident:
		f.ident(e)
	case *ast.SelectorExpr:
		if _, isValue := f.info.Selections[e]; isValue {
			f.inner(e.X)
		}
		f.leaf(e)
	case *ast.IndexExpr:
		f.inner(e.X)
		f.index(e.Index)
		f.leaf(e)
	case *ast.SliceExpr:
		f.inner(e.X)
		f.index(e.Low)
		f.index(e.High)
		f.index(e.Max)
	case *ast.CompositeLit:
		f.composite(e)
	case *ast.FuncLit:
		f.block(e.Body)
	case *ast.KeyValueExpr:
		f.expr(e.Value)
	case *ast.ArrayType, *ast.MapType, *ast.StructType:
	default:
		panic(fmt.Sprintf("%s: a %T, which this tool does not know yet", f.fset.Position(e.Pos()), e))
	}
}

// addressable: the operand of & is a variable, so nothing may be wrapped in it
// but indices.
func addressable(e ast.Expr) bool {
	_, literal := e.(*ast.CompositeLit)
	return !literal
}

// inner takes what a selector or index is applied to: only calls and indices in
// it are values of their own.
func (f *finder) inner(e ast.Expr) {
	switch e := e.(type) {
	case *ast.CallExpr:
		f.call(e)
	case *ast.SelectorExpr:
		f.inner(e.X)
	case *ast.IndexExpr:
		f.inner(e.X)
		f.index(e.Index)
	case *ast.ParenExpr:
		f.inner(e.X)
	}
}

// index takes an index or bound. A number there is no decision: another one ends
// in a panic of the language.
func (f *finder) index(e ast.Expr) {
	if _, literal := e.(*ast.BasicLit); e != nil && !literal {
		f.expr(e)
	}
}

// leaf negates a value that is true or false.
func (f *finder) leaf(e ast.Expr) {
	if f.isBool(e) {
		f.wrap(e, "not", "mxNot(%d, %s)")
	}
}

func (f *finder) isBool(e ast.Expr) bool {
	tv, ok := f.info.Types[e]
	return ok && tv.Value == nil && tv.IsValue() && types.Identical(types.Default(tv.Type), types.Typ[types.Bool])
}

func (f *finder) ident(e *ast.Ident) {
	if o := f.info.Uses[e]; o == types.Universe.Lookup("true") || o == types.Universe.Lookup("false") {
		f.wrapAs(e, "flip", f.context(e), "mxNot(%d, %s)")
		return
	}
	f.leaf(e)
}

// context is the source around a literal, which alone would say little.
func (f *finder) context(e ast.Expr) string {
	for _, file := range f.files {
		if file.FileStart <= e.Pos() && e.End() <= file.FileEnd {
			return f.marked(parent(file, e), e)
		}
	}
	return f.text(e)
}

func (f *finder) binary(e *ast.BinaryExpr) {
	f.operand(e, e.X, e.Y)
	f.operand(e, e.Y, e.X)
	_, xk := f.fold(e.X)
	_, yk := f.fold(e.Y)
	switch e.Op {
	case token.LAND, token.LOR:
		drop := "mxTrue(%d, %s)"
		if e.Op == token.LOR {
			drop = "mxFalse(%d, %s)"
		}
		if xk || yk {
			return // nothing is left if the other goes
		}
		for _, o := range []ast.Expr{e.X, e.Y} {
			if b, ok := o.(*ast.BinaryExpr); ok && b.Op == e.Op {
				continue // its own operands are dropped one by one
			}
			f.wrap(o, "drop", drop)
		}
		// By De Morgan: the operands and the whole negated, so that the second is
		// evaluated when it should be.
		num := f.add("swap", f.text(e))
		op := e.Op.String()
		f.at(e).parts = func(t []string) string {
			return fmt.Sprintf("mxNot(%d, mxNot(%d, %s) %s mxNot(%d, %s))", num, num, t[0], op, num, t[1])
		}
	case token.EQL, token.NEQ:
		f.leaf(e)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.leaf(e)
		name := map[token.Token]string{token.LSS: "mxLess", token.LEQ: "mxLessEq", token.GTR: "mxMore", token.GEQ: "mxMoreEq"}[e.Op]
		f.operands(e, "bound", name, e.X, e.Y)
	case token.ADD, token.SUB:
		if tv := f.info.Types[e]; tv.Value == nil && isInteger(tv.Type) {
			f.operands(e, "sign", map[token.Token]string{token.ADD: "mxAdd", token.SUB: "mxSub"}[e.Op], e.X, e.Y)
		}
	}
}

// operand takes one side of a binary expression. A number that something is
// compared with is changed by comparing twice, if that does no harm: so it shows
// whether the comparison comes out another way.
func (f *finder) operand(e *ast.BinaryExpr, x, other ast.Expr) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.INT || !f.isBool(e) || !f.pure(other) {
		f.expr(x)
		return
	}
	with := func(op, change string) {
		a, b := f.text(e.X), f.text(e.Y)
		if x == e.X {
			a += change
		} else {
			b += change
		}
		f.wrapAs(e, op, f.marked(e, x), "mxElse(%d, %s, "+strings.ReplaceAll(a+" "+e.Op.String()+" "+b, "%", "%%")+")")
	}
	with("plus", "+1")
	if !f.isZero(x) {
		with("minus", "-1")
	}
}

// operands writes a binary expression, or a call with two arguments, as a call
// of a helper.
func (f *finder) operands(e ast.Expr, op, helper string, x, y ast.Expr) {
	num := f.add(op, f.text(e))
	t := f.info.TypeOf(x)
	if f.info.Types[x].Value != nil {
		t = f.info.TypeOf(y)
	}
	alias := f.alias(t)
	f.at(e).parts = func(t []string) string {
		return fmt.Sprintf("%s[%s](%d, %s, %s)", helper, alias, num, t[0], t[1])
	}
}

func isInteger(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0 && b.Info()&types.IsUntyped == 0
}

func (f *finder) call(e *ast.CallExpr) {
	if f.never(e) {
		return
	}
	f.inner(e.Fun)
	if lit, ok := e.Fun.(*ast.FuncLit); ok {
		f.block(lit.Body)
	}
	if f.info.Types[e.Fun].IsType() || f.info.Types[e.Fun].IsBuiltin() {
		id, _ := e.Fun.(*ast.Ident)
		if id != nil && (id.Name == "make" || id.Name == "new") {
			return
		}
	}
	for _, a := range e.Args {
		f.expr(a)
	}
	if id, ok := e.Fun.(*ast.Ident); ok && f.info.Types[e.Fun].IsBuiltin() && len(e.Args) == 2 && f.info.Types[e].Value == nil {
		switch id.Name {
		case "min":
			f.operands(e, "min", "mxMin", e.Args[0], e.Args[1])
		case "max":
			f.operands(e, "min", "mxMax", e.Args[0], e.Args[1])
		}
	}
	f.leaf(e)
}

func (f *finder) integer(e *ast.BasicLit) {
	t := f.info.TypeOf(e)
	if e.Kind != token.INT || t == nil || !isInteger(t) {
		return
	}
	alias, around := f.alias(t), f.context(e)
	f.wrapAs(e, "plus", around, "mxPlus["+alias+"](%d, %s)")
	if v, ok := constant.Uint64Val(f.info.Types[e].Value); ok && v > 0 {
		f.wrapAs(e, "minus", around, "mxMinus["+alias+"](%d, %s)")
	}
}

// composite leaves fields out. One that is zero anyway is not worth it.
func (f *finder) composite(e *ast.CompositeLit) {
	_, isStruct := f.info.TypeOf(e).Underlying().(*types.Struct)
	for _, x := range e.Elts {
		v := x
		kv, keyed := x.(*ast.KeyValueExpr)
		if keyed {
			v = kv.Value
		}
		f.expr(v)
		if !isStruct || !keyed || f.dead(v) || f.isZero(v) {
			continue
		}
		alias := f.alias(f.info.TypeOf(v))
		helper := "mxZero"
		if !types.Comparable(f.info.TypeOf(v)) {
			helper = "mxZeroAny"
		}
		f.wrapAs(v, "zero", f.text(kv), helper+"["+alias+"](%d, %s)")
	}
}

func (f *finder) isZero(e ast.Expr) bool {
	tv := f.info.Types[e]
	if tv.IsNil() {
		return true
	}
	if tv.Value == nil {
		return false
	}
	switch tv.Value.Kind() {
	case constant.Bool:
		return !constant.BoolVal(tv.Value)
	case constant.String:
		return constant.StringVal(tv.Value) == ""
	}
	return constant.Sign(tv.Value) == 0
}
