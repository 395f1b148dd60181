// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteManual writes the manual page of a program in section 1, in the macros of man(7): what it is, its flags and
// commands, and examples, from the same definitions as its help.
func WriteManual(w io.Writer, root *cobra.Command) error {
	p := &page{}
	p.macro("TH", strings.ToUpper(root.Name()), "1", "", "go-sdr "+root.Version, "go-sdr")
	p.section("NAME")
	p.text(root.Name() + ` \- ` + escape(root.Short))
	p.section("SYNOPSIS")
	if root.Runnable() {
		p.macro("B", escape(root.UseLine()))
	}
	for _, c := range commands(root) {
		p.macro("br")
		p.macro("B", escape(c.UseLine()))
	}
	p.section("DESCRIPTION")
	long := root.Long
	if long == "" {
		long = root.Short
	}
	p.prose(long)
	p.flags("OPTIONS", root)
	for _, c := range commands(root) {
		p.section(strings.ToUpper(strings.TrimPrefix(c.CommandPath(), root.Name()+" ")))
		p.text(escape(c.Short) + ".")
		if c.Long != "" {
			p.macro("PP")
			p.prose(c.Long)
		}
		p.flags("", c)
		p.examples("", c)
	}
	p.examples("EXAMPLES", root)
	p.section("EXIT STATUS")
	for _, s := range statuses {
		p.macro("TP")
		p.text(s.number)
		p.text(escape(s.says))
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// statuses are those with which all programs end (usage.Report).
var statuses = []struct{ number, says string }{
	{"0", "All was done."}, {"1", "Something failed."}, {"2", "There is a mistake in the call."},
	{"3", "A result doesn't keep a limit that it was held to."}, {"130", "An interrupt (Ctrl-C)."},
}

// commands are those that the help shows, without cobra's own; of one that only holds others, these.
func commands(root *cobra.Command) (list []*cobra.Command) {
	for _, c := range root.Commands() {
		switch {
		case !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion":
		case c.HasAvailableSubCommands():
			list = append(list, commands(c)...)
		default:
			list = append(list, c)
		}
	}
	return list
}

// A page is a manual page as it grows.
type page struct{ b strings.Builder }

// macro writes a request; its arguments have been escaped.
func (p *page) macro(name string, args ...string) {
	p.b.WriteString("." + name)
	for _, a := range args {
		p.b.WriteString(` "` + strings.ReplaceAll(a, `"`, `\(dq`) + `"`)
	}
	p.b.WriteByte('\n')
}

func (p *page) section(title string) { p.macro("SH", title) }

// text writes a line that is filled.
func (p *page) text(line string) {
	if strings.HasPrefix(line, ".") {
		line = `\&` + line // no request
	}
	p.b.WriteString(line + "\n")
}

// prose writes paragraphs: those that begin with a blank are set as they are.
func (p *page) prose(long string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if i > 0 {
			p.macro("PP")
		}
		if strings.HasPrefix(paragraph, " ") {
			p.verbatim(paragraph)
			continue
		}
		for line := range strings.Lines(paragraph) {
			p.text(escape(strings.TrimSpace(line)))
		}
	}
}

func (p *page) verbatim(text string) {
	p.macro("nf")
	for line := range strings.Lines(text) {
		p.text(escape(strings.TrimRight(line, "\n")))
	}
	p.macro("fi")
}

// flags writes the flags of a command, except those that cobra adds everywhere.
func (p *page) flags(title string, c *cobra.Command) {
	headed := title == ""
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		if !headed {
			p.section(title)
			headed = true
		}
		value, says := pflag.UnquoteUsage(f)
		names := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + names
		}
		if value != "" {
			names += ` \fI` + escape(value) + `\fR`
		}
		if shown := f.DefValue; shown != "" && shown != "0" && shown != "false" && shown != "[]" && !strings.HasPrefix(shown, "0 ") {
			says += fmt.Sprintf(" (default %s)", shown)
		}
		p.macro("TP")
		p.text(names)
		p.text(escape(says))
	})
}

func (p *page) examples(title string, c *cobra.Command) {
	if c.Example == "" {
		return
	}
	if title != "" {
		p.section(title)
	} else {
		p.macro("PP")
		p.text("Examples:")
	}
	p.macro("PP")
	p.verbatim(c.Example)
}

// troff would set these characters as others, quotation marks and accents, which a shell doesn't take (groff_char(7)).
var troff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\t", "    ")

// escape makes text that troff sets as it is: characters that can be copied, no escapes.
func escape(text string) string {
	return troff.Replace(text)
}
