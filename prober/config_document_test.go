package prober

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
)

var update = flag.Bool("update", false, "write CONFIGURATION.md anew")

// configKey is one key as its comment documents it.
type configKey struct {
	section, name, text    string
	kind                   string // placeholder of its values
	list, inline, required bool
	unit, preset, example  string // preset is the default: YAML in backticks, or words
	refused                []string
}

// configSection is one mapping of the file.
type configSection struct {
	name, text string
	keys       []configKey
}

// configComments are the comments of the configuration's types.
type configComments struct {
	sections []configSection
	values   map[string]string // placeholder to meaning, of types that are no mapping of ours
}

// readConfigComments reads the comments out of the source.
func readConfigComments(t *testing.T) configComments {
	t.Helper()
	files, err := filepath.Glob("config*.go")
	if err != nil {
		t.Fatal(err)
	}
	c := configComments{values: map[string]string{}}
	var structs []*ast.TypeSpec
	types := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE || decl.Doc == nil {
				continue
			}
			spec := decl.Specs[0].(*ast.TypeSpec)
			text, _, _ := strings.Cut(decl.Doc.Text(), "\n\n")
			types[spec.Name.Name] = sentence(text)
			if _, ok := spec.Type.(*ast.StructType); ok && name == "config_keys.go" {
				structs = append(structs, spec)
			}
		}
	}
	for _, spec := range structs {
		c.sections = append(c.sections, readSection(t, spec, types))
	}
	for _, s := range c.sections {
		for _, k := range s.keys {
			for _, name := range []string{"Ladder", "Length", "Share", "Tokens", "Interval", "Duration", "Timeout", "Weight", "QuietHours", "HTTPConfig"} {
				if strings.Contains(k.kind, "<"+snake(name)) {
					c.values["<"+snake(name)+">"] = types[name]
				}
			}
		}
	}
	c.values["<… per rung>"] = types["RungValues"]
	return c
}

func readSection(t *testing.T, spec *ast.TypeSpec, types map[string]string) configSection {
	t.Helper()
	section := configSection{name: snake(spec.Name.Name), text: types[spec.Name.Name]}
	for _, field := range spec.Type.(*ast.StructType).Fields.List {
		k := configKey{section: section.name}
		k.kind, k.list = placeholder(field.Type, types)
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml"), ",")
		k.name, k.inline, k.required = name, options == "inline", options == ""
		text, lines, _ := strings.Cut(field.Doc.Text(), "\n\n")
		k.text = sentence(text)
		for line := range strings.Lines(lines) {
			tag, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				t.Fatalf("%s.%s: %q is none of Unit, Default, Example, Refused", section.name, name, line)
			}
			switch tag {
			case "Unit":
				k.unit = value
			case "Default":
				k.preset = value
			case "Example":
				k.example = value
			case "Refused":
				k.refused = append(k.refused, value)
			default:
				t.Fatalf("%s.%s: %q is none of Unit, Default, Example, Refused", section.name, name, tag)
			}
		}
		section.keys = append(section.keys, k)
	}
	return section
}

// placeholder names the values of a type, and tells whether they are a list.
func placeholder(e ast.Expr, types map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return placeholder(e.X, types)
	case *ast.ArrayType:
		name, _ := placeholder(e.Elt, types)
		return name, true
	case *ast.IndexExpr:
		name, _ := placeholder(e.Index, types)
		return strings.TrimSuffix(name, ">") + " per rung>", false
	case *ast.Ident:
		if e.Name == "bool" {
			return "<boolean>", false
		}
		if _, ok := types[e.Name]; ok {
			return "<" + snake(e.Name) + ">", false
		}
	}
	return "<string>", false
}

var wordBoundary = regexp.MustCompile("([a-z])([A-Z])")

// snake makes slo_config of SLOConfig.
func snake(name string) string {
	name, mapping := strings.CutSuffix(name, "Config")
	name = strings.ToLower(wordBoundary.ReplaceAllString(name, "${1}_$2"))
	switch {
	case mapping && name == "":
		return "config"
	case mapping:
		return name + "_config"
	}
	return name
}

// sentence takes the name that a comment begins with off it.
func sentence(comment string) string {
	_, text, _ := strings.Cut(strings.Join(strings.Fields(comment), " "), " ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	first := []rune(text)
	first[0] = unicode.ToUpper(first[0])
	return string(first)
}

// file is the smallest configuration file in which a key has a value.
func (k configKey) file(value string) string {
	required := map[string][][2]string{
		"target_config": {{"name", "ct200"}, {"url", "http://10.0.0.5:30000"}},
	}
	if k.section == "log_config" && (k.name == "format" || value == "") { // a path or a unit, not both
		other := [2]string{"path", "/var/log/server.log"}
		if k.name == "path" {
			other = [2]string{"unit", "server.service"}
		}
		required[k.section] = [][2]string{other}
	}
	var own []string
	for _, pair := range required[k.section] {
		if pair[0] != k.name {
			own = append(own, pair[0]+": '"+pair[1]+"'")
		}
	}
	if value != "" {
		own = append(own, k.name+": "+value)
	}
	const target = "name: ct200, url: 'http://10.0.0.5:30000'"
	inner := strings.Join(own, ", ")
	switch k.section {
	case "config":
		return inner + "\n"
	case "probe_config":
		return strings.Join(append(own, "targets: [{"+target+"}]"), "\n") + "\n"
	case "target_config":
		return "targets:\n  - {" + inner + "}\n"
	case "log_config":
		return "targets: [{" + target + ", logs: [{" + inner + "}]}]\n"
	}
	parent := strings.TrimSuffix(k.section, "_config")
	return "targets: [{" + target + ", " + parent + ": {" + inner + "}}]\n"
}

// parse gives the targets of the file in which the key has the value.
func (k configKey) parse(value string) ([]Target, error) {
	c, err := ParseConfig([]byte(k.file(value)))
	if err != nil {
		return nil, err
	}
	v, err := c.Validate()
	return v.Targets(), err
}

// grammar is the key in the notation of Prometheus' own documentation.
func (k configKey) grammar() string {
	var b strings.Builder
	for _, line := range wrap(k.text, 98) {
		b.WriteString("# " + line + "\n")
	}
	preset := strings.Trim(k.preset, "`")
	switch {
	case k.inline:
		fmt.Fprintf(&b, "[ %s ]\n", k.kind)
	case k.list && k.required:
		fmt.Fprintf(&b, "%s:\n  - %s ...\n", k.name, k.kind)
	case k.list:
		fmt.Fprintf(&b, "%s:\n  [ - %s ... | default = %s ]\n", k.name, k.kind, preset)
	case k.required:
		fmt.Fprintf(&b, "%s: %s\n", k.name, k.kind)
	default:
		fmt.Fprintf(&b, "[ %s: %s | default = %s ]\n", k.name, k.kind, preset)
	}
	return b.String()
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

var atLineNumber = regexp.MustCompile(`^line \d+: `)

// row is the key's row in the table below the grammar.
func (k configKey) row() string {
	var refusals []string
	for _, value := range k.refused {
		message := "accepted" // which TestConfigurationKeys does not pass
		if _, err := k.parse(value); err != nil {
			message = atLineNumber.ReplaceAllString(err.Error(), "")
		}
		refusals = append(refusals, fmt.Sprintf("`%s`: %s", value, message))
	}
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(refusals, "<br>"))
	cell = strings.ReplaceAll(cell, "&lt;br>", "<br>")
	return fmt.Sprintf("| `%s` | %s | `%s: %s` | %s |\n", k.name, cmp.Or(k.unit, "-"), k.name, k.example, cmp.Or(cell, "-"))
}

// document writes CONFIGURATION.md.
func (c configComments) document() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Generated from the comments of the configuration's types by ` + "`go generate ./prober`" + `; change them in prober/config_keys.go.

The file is YAML, named by ` + "`--config.file`" + `. ` + "`longctx_exporter check --config.file=longctx.yml`" + ` reads it, says what is unwise, and exits
with 0 if it is valid. An unknown key, a key that is there twice and a value of the wrong kind are errors; an error is one sentence that
names the line or the path, like ` + "`targets[0].plan`" + `, and never quotes a secret. Relative paths are relative to the file's folder.

SIGHUP makes the daemon read the file again; targets that did not change go on as they were, and a file with an error changes nothing.

Brackets mark what may be left out. Placeholders:

`)
	for _, name := range slices.Sorted(maps.Keys(c.values)) {
		fmt.Fprintf(&b, "* `%s`: %s\n", name, c.values[name])
	}
	b.WriteString("* `<boolean>`: `true` or `false`.\n* `<string>`: Text.\n")
	for _, s := range c.sections {
		fmt.Fprintf(&b, "\n## `<%s>`\n\n%s\n\n```yaml\n", s.name, s.text)
		for i, k := range s.keys {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(k.grammar())
		}
		b.WriteString("```\n\n| Key | Unit | Example | Refused |\n|---|---|---|---|\n")
		for _, k := range s.keys {
			if !k.inline {
				b.WriteString(k.row())
			}
		}
	}
	fmt.Fprintf(&b, "\n## `<http_config>`\n\n%s What each key means is told at\n"+
		"<https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config>.\n\n```yaml\n", c.values["<http_config>"])
	writeHTTPKeys(&b, reflect.ValueOf(config.DefaultHTTPClientConfig), "")
	b.WriteString("```\n")
	return b.String()
}

// writeHTTPKeys writes the keys of the library's type that are of use here: not the deprecated ones, nor those that need a
// manager of secrets.
func writeHTTPKeys(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.IsExported() || strings.HasSuffix(name, "_ref") || strings.HasPrefix(name, "bearer_token") {
			continue
		}
		if field.Type.Kind() == reflect.Pointer {
			value = reflect.Zero(field.Type.Elem())
		}
		switch kind := value.Type(); {
		case options == "inline":
			writeHTTPKeys(b, value, indent)
		case kind.Kind() == reflect.Bool:
			fmt.Fprintf(b, "%s[ %s: <boolean> | default = %v ]\n", indent, name, value.Bool())
		case kind == reflect.TypeFor[config.Secret]():
			fmt.Fprintf(b, "%s[ %s: <secret> ]\n", indent, name)
		case kind == reflect.TypeFor[config.Headers](), kind.Kind() == reflect.Map:
			fmt.Fprintf(b, "%s[ %s: <mapping> ]\n", indent, name)
		case kind.Kind() == reflect.Slice:
			fmt.Fprintf(b, "%s%s:\n%s  [ - <string> ... ]\n", indent, name, indent)
		case kind.Kind() == reflect.Struct && kind != reflect.TypeFor[config.URL]():
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			writeHTTPKeys(b, value, indent+"  ")
		default:
			fmt.Fprintf(b, "%s[ %s: <string> ]\n", indent, name)
		}
	}
}

func TestConfigurationDocument(t *testing.T) {
	const path = "../CONFIGURATION.md"
	got := readConfigComments(t).document()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("CONFIGURATION.md is not what go generate makes (-file +generated):\n%s",
			gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
	}
}

// TestConfigurationKeys holds what the document says of each key against the parser.
func TestConfigurationKeys(t *testing.T) {
	for _, s := range readConfigComments(t).sections {
		for _, k := range s.keys {
			if k.inline {
				continue
			}
			t.Run(s.name+"/"+k.name, k.check)
		}
	}
}

func (k configKey) check(t *testing.T) {
	if k.text == "" || k.example == "" {
		t.Fatal("it has no comment or no example")
	}
	if _, err := k.parse(k.example); err != nil {
		t.Errorf("example %s: %v", k.example, err)
	}
	for _, value := range k.refused {
		_, err := k.parse(value)
		if err == nil {
			t.Errorf("%s is said to be refused", value)
			continue
		}
		_, words, _ := strings.Cut(err.Error(), " is none of ")
		for _, word := range strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !strings.Contains(k.text, word) {
				t.Errorf("the comment does not tell of %s", word)
			}
		}
	}
	without, err := k.parse("")
	if (err != nil) != k.required {
		t.Errorf("without it: %v", err)
	}
	if k.required == (k.preset != "") {
		t.Errorf("required %v, default %q", k.required, k.preset)
	}
	if value, ok := strings.CutPrefix(k.preset, "`"); ok {
		with, err := k.parse(strings.TrimSuffix(value, "`"))
		if err != nil || !reflect.DeepEqual(with, without) {
			t.Errorf("the default %s is not what holds without the key, %v:\n%s", k.preset, err, gocmp.Diff(without, with))
		}
	}
}
