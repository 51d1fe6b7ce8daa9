package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"
)

// process is a daemon in a process of its own.
type process struct {
	daemon
	*os.Process
}

// startProcess builds the program as users do and runs it until it is told to end, or the test ends.
func startProcess(t *testing.T, args ...string) process {
	t.Helper()
	path := filepath.Join(t.TempDir(), program)
	if out, err := osexec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	address := freePort(t)
	d := daemon{url: "http://" + address, stderr: &lockedBuffer{}, code: make(chan int, 1)}
	command := osexec.Command(path, append(args, "--web.listen-address="+address)...)
	command.Stderr = d.stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		command.Wait()
		d.code <- command.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		command.Process.Kill()
		<-ended
	})
	d.awaitHealth(t, "")
	return process{d, command.Process}
}
