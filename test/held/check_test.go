// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine reads source: the race detector has nothing to find.

package held

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"strings"
)

// A lock is a mutex by type and field, such as QP.mu.
type lock struct{ owner, field string }

func (l lock) String() string { return l.owner + "." + l.field }

// A checker looks at the functions of one package.
type checker struct {
	fset  *token.FileSet
	info  *types.Info
	pkg   *types.Package
	needs map[types.Object]lock // what functions say
	takes map[types.Object]lock // functions that lock for their callers
	under map[types.Object]lock // fields that a mutex guards
	fresh map[types.Object]bool // variables whose object nobody else has yet
	found []string
	said  int
}

var (
	says   = regexp.MustCompile(`\b(?:(\w+)\.)?(\w*[mM]u) is held\b`)
	guards = regexp.MustCompile(`\+checklocks:(\w+)`)
	locks  = regexp.MustCompile(`\btakes (?:(\w+)\.)?(\w*[mM]u)\b`)
)

// check reads the comments of a package, then its function bodies.
func (c *checker) check(files []*ast.File) {
	c.needs, c.takes = map[types.Object]lock{}, map[types.Object]lock{}
	c.under, c.fresh = map[types.Object]lock{}, map[types.Object]bool{}
	whole := map[string]lock{} // what types say
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					t := s.(*ast.TypeSpec)
					c.fields(t)
					if l, ok := c.annotation(says, g.Doc, t.Name.Name, nil); ok {
						whole[t.Name.Name] = l
					}
				}
			}
		}
	}
	holds := map[*ast.FuncDecl]lock{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			owner := c.receiver(fn)
			if l, ok := c.annotation(locks, fn.Doc, owner, fn); ok {
				c.takes[c.info.Defs[fn.Name]] = l
			}
			if l, ok := c.annotation(says, fn.Doc, owner, fn); ok {
				holds[fn] = l
				c.needs[c.info.Defs[fn.Name]] = l
			} else if l, ok := whole[owner]; ok {
				holds[fn] = l
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				held := set{}
				if l, ok := holds[fn]; ok {
					held[l] = true
				}
				c.block(fn.Body.List, held)
			}
		}
	}
}

// annotation is the lock that a comment speaks of.
func (c *checker) annotation(form *regexp.Regexp, doc *ast.CommentGroup, owner string, fn *ast.FuncDecl) (lock, bool) {
	if doc == nil {
		return lock{}, false
	}
	m := form.FindStringSubmatch(strings.ReplaceAll(doc.Text(), "\n", " "))
	if m == nil {
		return lock{}, false
	}
	c.said++
	l := lock{owner, m[2]}
	if m[1] != "" {
		l.owner = m[1]
		if fn != nil {
			for _, list := range []*ast.FieldList{fn.Recv, fn.Type.Params} {
				l.owner = c.parameter(list, l.owner)
			}
		}
	}
	if !c.exists(l) {
		c.report(doc.Pos(), "there is no mutex %v: say whose it is", l)
	}
	return l, true
}

// fields notes which fields of a struct say "+checklocks:mu".
func (c *checker) fields(t *ast.TypeSpec) {
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		m := guards.FindStringSubmatch(f.Doc.Text() + f.Comment.Text())
		if m == nil {
			continue
		}
		c.said++
		l := lock{t.Name.Name, m[1]}
		if !c.exists(l) {
			c.report(f.Pos(), "there is no mutex %v", l)
		}
		for _, n := range f.Names {
			c.under[c.info.Defs[n]] = l
		}
	}
}

// field compares where a guarded field is used with what is held.
func (c *checker) field(s *ast.SelectorExpr, held set) {
	l, ok := c.under[c.info.Uses[s.Sel]]
	if !ok || held[l] {
		return
	}
	if id, ok := s.X.(*ast.Ident); ok && c.fresh[c.info.Uses[id]] {
		return
	}
	c.report(s.Pos(), "%s is used without %v, which guards it", s.Sel.Name, l)
}

// makes notes variables that a statement defines as new objects of struct types.
func (c *checker) makes(s *ast.AssignStmt) {
	for i, r := range s.Rhs {
		if u, ok := r.(*ast.UnaryExpr); ok {
			r = u.X
		}
		if _, ok := r.(*ast.CompositeLit); !ok || i >= len(s.Lhs) {
			continue
		}
		if id, ok := s.Lhs[i].(*ast.Ident); ok {
			c.fresh[c.info.ObjectOf(id)] = true
		}
	}
}

// parameter is the type of the parameter name in list, or name.
func (c *checker) parameter(list *ast.FieldList, name string) string {
	if list != nil {
		for _, f := range list.List {
			for _, n := range f.Names {
				if n.Name == name {
					return named(c.info.TypeOf(f.Type))
				}
			}
		}
	}
	return name
}

// exists reports whether the package has the type, and the type the field.
func (c *checker) exists(l lock) bool {
	t := c.pkg.Scope().Lookup(l.owner)
	if t == nil {
		return false
	}
	field, _, _ := types.LookupFieldOrMethod(t.Type(), true, c.pkg, l.field)
	return field != nil
}

func (c *checker) receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	return named(c.info.TypeOf(fn.Recv.List[0].Type))
}

// named is the name of a type or of what it points to.
func named(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("%s: %s", c.fset.Position(at), fmt.Sprintf(format, args...)))
}

// A set is what is held.
type set map[lock]bool

// keep leaves in s what is also in o.
func (s set) keep(o set) {
	maps.DeleteFunc(s, func(l lock, _ bool) bool { return !o[l] })
}

// block walks statements in order, changes held, and reports whether they don't go on behind the block.
func (c *checker) block(list []ast.Stmt, held set) (ends bool) {
	for _, s := range list {
		ends = c.stmt(s, held)
	}
	return ends
}

// branches walks blocks of which at most one is run; must: one of them is.
func (c *checker) branches(blocks [][]ast.Stmt, held set, must bool) {
	before := maps.Clone(held)
	first := must
	for _, b := range blocks {
		h := maps.Clone(before)
		if c.block(b, h) {
			continue
		}
		if first {
			clear(held)
			maps.Copy(held, h)
			first = false
			continue
		}
		held.keep(h)
	}
}

func (c *checker) stmt(s ast.Stmt, held set) (ends bool) {
	switch s := s.(type) {
	case nil:
	case *ast.ReturnStmt:
		c.expr(s, held)
		return true
	case *ast.BranchStmt:
		return true
	case *ast.BlockStmt:
		return c.block(s.List, held)
	case *ast.LabeledStmt:
		return c.stmt(s.Stmt, held)
	case *ast.IfStmt:
		c.stmt(s.Init, held)
		c.expr(s.Cond, held)
		if call, ok := s.Cond.(*ast.CallExpr); ok && s.Else == nil {
			if l, _ := c.locking(call); l != (lock{}) { // if mu.TryLock()
				c.block(s.Body.List, maps.Clone(held))
				delete(held, l)
				break
			}
		}
		if t := c.notNil(s.Cond); t != "" && s.Else == nil {
			// Without the object there is nothing to guard.
			body := maps.Clone(held)
			if !c.block(s.Body.List, body) {
				maps.DeleteFunc(held, func(l lock, _ bool) bool { return !body[l] })
				for l := range body {
					if l.owner == t {
						held[l] = true
					}
				}
			}
			break
		}
		blocks := [][]ast.Stmt{s.Body.List}
		if s.Else != nil {
			blocks = append(blocks, []ast.Stmt{s.Else})
		}
		c.branches(blocks, held, s.Else != nil)
	case *ast.ForStmt:
		c.stmt(s.Init, held)
		if s.Cond != nil {
			c.expr(s.Cond, held)
		}
		c.branches([][]ast.Stmt{append(s.Body.List[:len(s.Body.List):len(s.Body.List)], post(s)...)}, held, s.Cond == nil)
	case *ast.RangeStmt:
		c.expr(s.X, held)
		c.branches([][]ast.Stmt{s.Body.List}, held, false)
	case *ast.SwitchStmt:
		c.stmt(s.Init, held)
		if s.Tag != nil {
			c.expr(s.Tag, held)
		}
		c.clauses(s.Body, held)
	case *ast.TypeSwitchStmt:
		c.stmt(s.Init, held)
		c.stmt(s.Assign, held)
		c.clauses(s.Body, held)
	case *ast.SelectStmt:
		c.clauses(s.Body, held)
	case *ast.GoStmt:
		for _, a := range s.Call.Args {
			c.expr(a, held)
		}
		c.expr(s.Call.Fun, set{})
	case *ast.DeferStmt:
		if _, unlock := c.locking(s.Call); unlock {
			return false // at the end of the function
		}
		c.expr(s.Call, held)
	default:
		c.expr(s, held)
	}
	return false
}

// notNil is the type of what a condition compares with nil, as in "x != nil".
func (c *checker) notNil(cond ast.Expr) string {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return ""
	}
	if y, ok := b.Y.(*ast.Ident); !ok || y.Name != "nil" {
		return ""
	}
	return named(c.info.TypeOf(b.X))
}

func post(s *ast.ForStmt) []ast.Stmt {
	if s.Post == nil {
		return nil
	}
	return []ast.Stmt{s.Post}
}

func (c *checker) clauses(body *ast.BlockStmt, held set) {
	var blocks [][]ast.Stmt
	must := false
	for _, s := range body.List {
		switch s := s.(type) {
		case *ast.CaseClause:
			for _, e := range s.List {
				c.expr(e, held)
			}
			must = must || s.List == nil
			blocks = append(blocks, s.Body)
		case *ast.CommClause:
			must = true
			blocks = append(blocks, append([]ast.Stmt{s.Comm}, s.Body...))
		}
	}
	c.branches(blocks, held, must)
}

// expr walks the calls of an expression or simple statement in the order of the source.
func (c *checker) expr(n ast.Node, held set) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			c.makes(n)
		case *ast.SelectorExpr:
			c.field(n, held)
		case *ast.FuncLit:
			c.literal(n, held)
			return false
		case *ast.CallExpr:
			if l, unlock := c.locking(n); l != (lock{}) {
				switch {
				case unlock:
					delete(held, l)
				case held[l] && n.Fun.(*ast.SelectorExpr).Sel.Name != "TryLock":
					c.report(n.Pos(), "%v is locked, and is held already", l)
				default:
					held[l] = true
				}
				return false
			}
			c.call(n, held)
		}
		return true
	})
}

// literal walks a function literal with what is held where it stands, but for what it locks itself: it is
// run later.
func (c *checker) literal(f *ast.FuncLit, held set) {
	h := maps.Clone(held)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if l, unlock := c.locking(call); !unlock {
				delete(h, l)
			}
		}
		return true
	})
	c.block(f.Body.List, h)
}

// locking is the mutex that a call locks or unlocks.
func (c *checker) locking(call *ast.CallExpr) (l lock, unlock bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return l, false
	}
	field, ok := method.X.(*ast.SelectorExpr)
	if !ok {
		return l, false
	}
	l = lock{named(c.info.TypeOf(field.X)), field.Sel.Name}
	switch method.Sel.Name {
	case "Lock", "RLock", "TryLock":
		return l, false
	case "Unlock", "RUnlock":
		return l, true
	}
	return lock{}, false
}

// call compares what a called function says with what is held.
func (c *checker) call(call *ast.CallExpr, held set) {
	var id *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return
	}
	if l, ok := c.takes[c.info.Uses[id]]; ok {
		if held[l] {
			c.report(call.Pos(), "%v is locked by %s, and is held already", l, id.Name)
		}
		held[l] = true
	}
	if l, ok := c.needs[c.info.Uses[id]]; ok && !held[l] {
		c.report(call.Pos(), "%s is called without %v, which its comment says is held", id.Name, l)
	}
}
