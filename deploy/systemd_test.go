package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const unitFile = "systemd/longctx_exporter.service"

// unit is a unit file: a value for each setting, several lines of one joined by a space.
type unit map[string]string

func readUnit(t *testing.T) unit {
	t.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(string(read(t, unitFile))) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				t.Fatalf("%q is no setting", line)
			}
			key = section + "." + key
			u[key] = strings.TrimSpace(u[key] + " " + value)
		}
	}
	return u
}

func TestUnit(t *testing.T) {
	u := readUnit(t)
	for key, want := range map[string]string{
		"Service.DynamicUser":           "yes",
		"Service.StateDirectory":        "longctx_exporter",
		"Service.ProtectSystem":         "strict",
		"Service.ReadOnlyPaths":         "-/var/log",
		"Service.NoNewPrivileges":       "yes",
		"Service.CapabilityBoundingSet": "",
		"Service.SystemCallFilter":      "@system-service ~@privileged @resources",
		"Service.ProcSubset":            "", // process_start_time_seconds needs /proc/stat
		"Install.WantedBy":              "multi-user.target",
	} {
		if u[key] != want {
			t.Errorf("%s=%s, want %s", key, u[key], want)
		}
	}
	command := strings.Fields(u["Service.ExecStart"])
	if file := checkCommand(t, command[1:]); file != "/etc/"+u["Service.ConfigurationDirectory"]+"/longctx.yml" {
		t.Errorf("the configuration %s is not in ConfigurationDirectory", file)
	}
	if !strings.Contains(u["Service.ExecStart"], " --storage.path=/var/lib/"+u["Service.StateDirectory"]) {
		t.Errorf("%s keeps nothing in the StateDirectory", u["Service.ExecStart"])
	}
	goLimit, ok := strings.CutPrefix(u["Service.Environment"], "GOMEMLIMIT=")
	soft, hard := mebibytes(t, strings.TrimSuffix(goLimit, "iB")), mebibytes(t, u["Service.MemoryMax"])
	if !ok || soft >= hard {
		t.Errorf("GOMEMLIMIT %d MiB is not below MemoryMax %d MiB", soft, hard)
	}
}

func mebibytes(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimRight(text, "Mi"))
	if err != nil || !strings.Contains(text, "M") {
		t.Fatalf("%q is not a number of mebibytes", text)
	}
	return n
}

// TestUnitConfig checks the example configuration, and that its key is the one that the unit loads.
func TestUnitConfig(t *testing.T) {
	keys := 0
	for _, target := range loadConfig(t, "systemd/longctx.yml") {
		if a := target.HTTP.Authorization; a != nil {
			keys++
			if want := "/run/credentials/" + filepath.Base(unitFile) + "/" + readUnit(t)["Service.LoadCredential"]; a.CredentialsFile != want {
				t.Errorf("%s reads its key from %s, the unit loads %s", target.Name, a.CredentialsFile, want)
			}
		}
	}
	if keys == 0 {
		t.Error("no target shows how a key is used")
	}
}

// TestUnitExposure asks systemd itself where there is one.
func TestUnitExposure(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze here: only the settings were checked")
		return
	}
	// verify wants the program to be where the unit says.
	text := strings.ReplaceAll(string(read(t, unitFile)), "/usr/local/bin/longctx_exporter", program)
	installed := filepath.Join(t.TempDir(), filepath.Base(unitFile))
	if err := os.WriteFile(installed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", installed}, {"security", "--offline=true", "--threshold=15", installed}} {
		out, err := exec.Command(analyze, args...).CombinedOutput()
		if err != nil || (args[0] == "verify" && len(out) > 0) {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}
