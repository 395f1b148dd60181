// SPDX-License-Identifier: Apache-2.0

package names

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/sdr-rdma/go-sdr"
)

// A pkg is what a folder declares: "Name" at the top level, "Type.Name" for methods, fields and methods of interfaces.
type pkg struct {
	names map[string]bool
	// embeds has the types: whether they have members of others, or are names for others.
	embeds map[string]bool
	files  []*ast.File
}

// load parses the module, tests included, whatever their build constraints.
func load(t *testing.T) (fset *token.FileSet, all map[string]*pkg) {
	fset, all = token.NewFileSet(), map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if n := d.Name(); path != root && (n == "testdata" || strings.HasPrefix(n, ".")) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path[len(root)+1:]))
		p := all[dir]
		if p == nil {
			p = &pkg{names: map[string]bool{}, embeds: map[string]bool{}}
			all[dir] = p
		}
		p.files = append(p.files, f)
		p.declare(f)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the walk has missed the module")
	return fset, all
}

func (p *pkg) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = base(d.Recv.List[0].Type) + "." + name
			}
			p.names[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.names[n.Name] = true
					}
				case *ast.TypeSpec:
					p.names[s.Name.Name] = true
					p.members(s.Name.Name, s.Type)
					p.embeds[s.Name.Name] = p.embeds[s.Name.Name] || s.Assign.IsValid()
				}
			}
		}
	}
}

// members declares fields and methods; what is embedded counts by its own name.
func (p *pkg) members(of string, t ast.Expr) {
	ast.Inspect(t, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			for _, n := range f.Names {
				p.names[of+"."+n.Name] = true
			}
		}
		return true
	})
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		p.embeds[of] = p.embeds[of] || f.Names == nil
	}
}

// base is the name of a receiver's type, without its star and its parameters.
func base(t ast.Expr) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(t), "*"), "[")
	return name
}

// TestDocLinks: what a comment has in the brackets of a doc link is declared.
func TestDocLinks(t *testing.T) {
	fset, all := load(t)
	links := 0
	for dir, p := range all {
		for _, f := range p.files {
			imports := importsOf(f)
			parser := comment.Parser{
				LookupPackage: func(name string) (string, bool) { path, ok := imports[name]; return path, ok },
				LookupSym:     func(string, string) bool { return true },
			}
			for _, c := range f.Comments {
				for _, l := range linksOf(parser.Parse(c.Text()).Content) {
					in := p
					if l.ImportPath != "" {
						if in = all[strings.TrimPrefix(l.ImportPath, module+"/")]; in == nil {
							continue // of another module
						}
					}
					name := l.Name
					if l.Recv != "" {
						name = l.Recv + "." + name
					}
					links++
					if name != "" && !in.names[name] && !ast.IsExported(name) {
						continue // a word in brackets
					}
					if name != "" && !in.names[name] {
						t.Errorf("%s: %s names [%s], which isn't declared", fset.Position(c.Pos()), dir, name)
					}
				}
			}
		}
	}
	require.Greater(t, links, 20, "the comments' links were missed")
}

// mention is a "Type.member" or "pkg.Name" in a comment's text.
var mention = regexp.MustCompile(`(^|[\s("])([A-Za-z]\w*)\.([A-Za-z]\w*)\b[^./]`)

// TestMentions: a comment's Type.member, of a type of its package, and its pkg.Name, of a package that the file imports,
// are declared.
func TestMentions(t *testing.T) {
	fset, all := load(t)
	seen := 0
	for _, p := range all {
		for _, f := range p.files {
			imports := importsOf(f)
			for _, c := range f.Comments {
				for _, m := range mention.FindAllStringSubmatch(c.Text()+"\n", -1) {
					of, name := m[2], m[3]
					path, imported := imports[of]
					other := all[strings.TrimPrefix(path, module+"/")]
					embeds, isType := p.embeds[of]
					switch {
					case imported && other != nil && ast.IsExported(name):
						seen++
						if !other.names[name] {
							t.Errorf("%s: %s.%s isn't declared", fset.Position(c.Pos()), of, name)
						}
					case isType && ast.IsExported(of):
						seen++
						if !p.names[of+"."+name] && !embeds {
							t.Errorf("%s: %s has no %s", fset.Position(c.Pos()), of, name)
						}
					}
				}
			}
		}
	}
	require.Greater(t, seen, 200, "the comments were missed")
}

func importsOf(f *ast.File) map[string]string {
	m := map[string]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		m[name] = path
	}
	return m
}

func linksOf(blocks []comment.Block) (links []*comment.DocLink) {
	var texts func([]comment.Text)
	texts = func(ts []comment.Text) {
		for _, x := range ts {
			switch x := x.(type) {
			case *comment.DocLink:
				links = append(links, x)
			case *comment.Link:
				texts(x.Text)
			}
		}
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case *comment.Paragraph:
			texts(b.Text)
		case *comment.Heading:
			texts(b.Text)
		case *comment.List:
			for _, i := range b.Items {
				links = append(links, linksOf(i.Content)...)
			}
		}
	}
	return links
}

var (
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
)

// TestWalks: the functions that docs/architecture.md walks through exist.
func TestWalks(t *testing.T) {
	_, all := load(t)
	declared := map[string]bool{}
	for dir, p := range all {
		short := dir[strings.LastIndexByte(dir, '/')+1:]
		declared[short] = true
		for name := range p.names {
			declared[name], declared[short+"."+name] = true, true
			_, member, ok := strings.Cut(name, ".")
			if ok {
				declared[member] = true // the sentence says whose
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, walks, ok := strings.Cut(string(text), "## One message, function by function")
	require.True(t, ok)
	walks, _, ok = strings.Cut(walks, "## Two bitmaps")
	require.True(t, ok)
	names := 0
	for _, m := range quoted.FindAllStringSubmatch(walks, -1) {
		name := strings.TrimSuffix(m[1], "()")
		if !identifier.MatchString(name) {
			continue // a name of a scheme, with a hyphen, or an example
		}
		names++
		require.True(t, declared[name], "docs/architecture.md names `%s`, which isn't declared", name)
	}
	require.Greater(t, names, 50)
}
