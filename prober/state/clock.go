package state

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// clockNoise is how far clocks may be apart without anybody having set one, and how far in the future a time may lie.
const clockNoise = time.Minute

// clock tells the time, and how long the machine has run, which nobody can set.
type clock interface {
	now() time.Time
	// uptime is the time since the machine was started, and a name of that start; ok is false where it does not tell.
	uptime() (boot string, up time.Duration, ok bool)
}

// machineClock is the operating system's.
type machineClock struct{}

func (machineClock) now() time.Time { return time.Now() }

func (machineClock) uptime() (string, time.Duration, bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, false
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return "", 0, false
	}
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	boot := strings.TrimSpace(string(id))
	if err != nil || !(seconds > 0 && seconds < 1e9) || boot == "" {
		return "", 0, false
	}
	return boot, time.Duration(seconds * float64(time.Second)), true
}

// away is how long the exporter did not run between a snapshot and the opening of its store, and by how much the wall clock
// was set meanwhile; known is false where the wall clock alone tells and tells a time before the snapshot.
func (s snapshot) away(opened time.Time, c clock) (away, set time.Duration, known bool) {
	byWall := opened.Round(0).Sub(s.Saved)
	if boot, up, ok := c.uptime(); ok && boot == s.Boot {
		if passed := up - time.Duration(s.Uptime*float64(time.Second)); passed >= 0 {
			return passed, byWall - passed, true
		}
	}
	return max(0, byWall), min(0, byWall), byWall >= -clockNoise
}
