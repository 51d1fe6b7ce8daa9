package main

import (
	"os"
	osexec "os/exec"
	"testing"

	"longctx_exporter/deploy/built"
)

// process is a daemon in a process of its own.
type process struct {
	daemon
	*os.Process
}

// startProcess builds the program as users do and runs it until it is told to end, or the test ends.
func startProcess(t *testing.T, args ...string) process {
	t.Helper()
	p := launch(t, builtProgram(t), freePort(t), args...)
	p.awaitHealth(t, "")
	return p
}

// builtProgram is the path of the program as users build it.
func builtProgram(t *testing.T) string {
	t.Helper()
	path, err := built.Program(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// launch runs a built program, which need not listen yet when it returns.
func launch(t *testing.T, path, address string, args ...string) process {
	t.Helper()
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
	return process{d, command.Process}
}
