package simserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// LogWraps lists how the lines of a log can be wrapped by what carries them:
//
//	docker    Docker's json-file driver, which cuts lines at 16 KiB
//	cri       containerd's and CRI-O's files, which mark cut lines with P and their ends with F
//	journald  journalctl --output=json
//	syslog    journalctl's and syslog's short form
//	compose   docker compose logs
//	kubectl   kubectl logs --timestamps
//	ansi      colours
//	ray       Ray's worker prefix
func LogWraps() []string {
	return []string{"docker", "cri", "journald", "syslog", "compose", "kubectl", "ansi", "ray"}
}

// wrapCut is where container runtimes cut lines, in bytes.
const wrapCut = 16 << 10

// wrapLine gives the bytes that stand in the file for some lines of a server.
func wrapLine(wrap, shape string, at time.Time, text string) []byte {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		switch wrap {
		case "docker":
			pieces(line, func(piece string, last bool) {
				if last {
					piece += "\n"
				}
				writeRecord(&b, object{"log": piece, "stream": "stderr", "time": at.UTC().Format(time.RFC3339Nano)})
			})
		case "cri":
			pieces(line, func(piece string, last bool) {
				mark := "P"
				if last {
					mark = "F"
				}
				fmt.Fprintf(&b, "%s stderr %s %s\n", at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00"), mark, piece)
			})
		case "journald":
			writeRecord(&b, object{
				"MESSAGE": line, "__REALTIME_TIMESTAMP": fmt.Sprint(at.UnixMicro()), "_HOSTNAME": "gpu01", "_PID": "28517",
				"SYSLOG_IDENTIFIER": shape, "_SYSTEMD_UNIT": shape + ".service", "_TRANSPORT": "stdout", "PRIORITY": "6",
			})
		case "syslog":
			fmt.Fprintf(&b, "%s gpu01 %s[28517]: %s\n", at.Format("Jan 02 15:04:05"), shape, line)
		case "compose":
			fmt.Fprintf(&b, "%s-1  | %s\n", shape, line)
		case "kubectl":
			fmt.Fprintf(&b, "%s %s\n", at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00"), line)
		case "ansi":
			b.WriteString(colour(line) + "\n")
		case "ray":
			fmt.Fprintf(&b, "(SchedulerActor pid=28517, ip=10.0.0.5) %s\n", line)
		default:
			b.WriteString(line + "\n")
		}
	}
	return []byte(b.String())
}

// pieces cuts a line where container runtimes would.
func pieces(line string, take func(piece string, last bool)) {
	for len(line) > wrapCut {
		take(line[:wrapCut], false)
		line = line[wrapCut:]
	}
	take(line, true)
}

func writeRecord(b *strings.Builder, o object) {
	data, _ := json.Marshal(o) // strings only
	b.Write(data)
	b.WriteByte('\n')
}

// colour dims what stands before the message and lights up the acceptance length.
func colour(line string) string {
	line = regexp.MustCompile(`^(\[[^\]]*\]|\([^)]*\))`).ReplaceAllString(line, "\x1b[2m$1\x1b[0m")
	line = regexp.MustCompile(`\b(INFO|WARNING|WARN)\b`).ReplaceAllString(line, "\x1b[32m$1\x1b[0m")
	return regexp.MustCompile(`(accept len|Mean acceptance length|mean len): ([0-9.]+)`).ReplaceAllString(line, "$1: \x1b[33m$2\x1b[0m")
}
