package sweep

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"longctx_exporter/prober"
)

func readme(t *testing.T) string { return read(t, "../../README.md") }

// blocks are the fenced blocks of one language.
func blocks(markdown, language string) []string {
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(markdown, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestReadmeConfigurations(t *testing.T) {
	configurations := 0
	for _, block := range blocks(readme(t), "yaml") {
		title, _, _ := strings.Cut(block, "\n")
		switch title {
		case "# longctx.yml":
			configurations++
			c, err := prober.ParseConfig([]byte(block))
			if err != nil {
				t.Errorf("%v in\n%s", err, block)
				continue
			}
			if _, err := c.Validate(); err != nil {
				t.Errorf("%v in\n%s", err, block)
			}
		case "# prometheus.yml":
			var anything map[string]any
			if err := yaml.Unmarshal([]byte(block), &anything); err != nil {
				t.Errorf("%v in\n%s", err, block)
			}
		default:
			t.Errorf("a block without a title: %q", title)
		}
	}
	if configurations == 0 {
		t.Error("the README shows no configuration")
	}
}

// commands are the flags of each command, without those that all have.
var commands = map[string]string{
	"sweep": "--url --model --ladder --output --output-file --resume --host --port --ctx --config.file --target --plan " +
		"--decode-tokens --precision --timeout --api",
	"serve":    "--config.file --demo --web.listen-address --web.config.file",
	"check":    "--config.file",
	"baseline": "--storage.path --target --rung",
}

func TestReadmeCommands(t *testing.T) {
	seen := map[string]bool{}
	for _, block := range blocks(readme(t), "console") {
		for line := range strings.Lines(block) {
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "$" || words[1] != "./longctx_exporter" {
				continue
			}
			flags, ok := commands[words[2]]
			if !ok {
				t.Errorf("no command is called %q", words[2])
			}
			seen[words[2]] = true
			for _, word := range words[3:] {
				name, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(name, "--") && !slices.Contains(strings.Fields(flags), name) {
					t.Errorf("%s has no flag %s", words[2], name)
				}
				if value, ok := strings.CutPrefix(word, "--ladder="); ok {
					if _, err := prober.ParseLadder(value); err != nil {
						t.Error(err)
					}
				}
				if value, ok := strings.CutPrefix(word, "--output="); ok && !slices.Contains(Outputs(), value) {
					t.Errorf("no output is called %q", value)
				}
			}
		}
	}
	if len(seen) != len(commands) {
		t.Errorf("the README shows %v of %d commands", seen, len(commands))
	}
}

// TestReadmeReasons compares the tables with the closed sets, both ways.
func TestReadmeReasons(t *testing.T) {
	_, section, _ := strings.Cut(readme(t), "## Why a run is no measurement")
	section, _, _ = strings.Cut(section, "\n## ")
	for status, heading := range map[prober.Status]string{
		prober.Rejected: "**Rejected**", prober.Failed: "**Failed**", prober.Skipped: "**Skipped**",
	} {
		_, table, _ := strings.Cut(section, heading)
		table, _, _ = strings.Cut(table, "\n**")
		var listed, want []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(table, -1) {
			listed = append(listed, m[1])
		}
		for _, reason := range prober.Reasons(status) {
			want = append(want, string(reason))
		}
		if !slices.Equal(listed, want) {
			t.Errorf("%s lists\n%v, want\n%v", heading, listed, want)
		}
	}
}

func TestReadmeColumns(t *testing.T) {
	_, section, _ := strings.Cut(readme(t), "## The columns of the table")
	for _, c := range columns {
		if !strings.Contains(section, "\n| "+c.name+" | ") {
			t.Errorf("the column %q is not explained", c.name)
		}
	}
}

// TestReadmeLinks: the papers that it points to are there.
func TestReadmeLinks(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^):#]+\.md)\)`).FindAllStringSubmatch(readme(t), -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Error(err)
		}
	}
}
