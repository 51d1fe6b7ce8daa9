package prober

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
)

// unitName is what systemd takes for the name of a unit.
var unitName = regexp.MustCompile(`^[A-Za-z0-9_.@\\:][A-Za-z0-9_.@\\:-]{0,254}$`)

// logSources checks the logs of a target.
func logSources(logs []LogConfig) ([]LogSource, error) {
	var sources, names []LogSource
	for i, l := range logs {
		switch {
		case l.Path == "" && l.Unit == "":
			return nil, fmt.Errorf("logs[%d].path is missing", i)
		case l.Path != "" && l.Unit != "":
			return nil, fmt.Errorf("logs[%d] has a path and a unit; write one of them", i)
		case l.Unit != "" && !unitName.MatchString(l.Unit):
			return nil, fmt.Errorf("logs[%d].unit %q is not the name of a systemd unit, like sglang.service", i, l.Unit)
		}
		source := LogSource{Path: l.Path, Unit: l.Unit, Format: cmp.Or(l.Format, "auto")}
		if err := oneOf(fmt.Sprintf("logs[%d].format", i), source.Format, "auto", "sglang", "vllm", "llamacpp", "ollama"); err != nil {
			return nil, err
		}
		name := source.name()
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("logs[%d] is already in the list; its lines would count twice", i)
		}
		names, sources = append(names, name), append(sources, source)
	}
	return sources, nil
}

// sharedLogs tells of logs that several targets name.
func sharedLogs(targets []Target) []string {
	var warnings []string
	names := map[LogSource]int{}
	for i, t := range targets {
		for j, l := range t.Logs {
			first, again := names[l.name()]
			if !again {
				names[l.name()] = i
				continue
			}
			warnings = append(warnings, fmt.Sprintf(
				"targets[%d].logs[%d] is a log of targets[%d] too: each counts every line, and a sum over targets counts them twice; name it under one of them",
				i, j, first))
		}
	}
	return warnings
}

// name is the same for one log, whatever its path looks like.
func (l LogSource) name() LogSource { return LogSource{Path: resolvedPath(l.Path), Unit: l.Unit} }

// resolvedPath is the absolute path of a file, behind symbolic links where the file is there already, and "" for "".
func resolvedPath(path string) string {
	if path == "" {
		return ""
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}
