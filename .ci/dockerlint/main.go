// Dockerlint runs the linter of BuildKit over Dockerfiles. It builds nothing and asks no registry.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: dockerlint Dockerfile...")
		os.Exit(2)
	}
	clean := true
	for _, path := range os.Args[1:] {
		if err := lint(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			clean = false
		}
	}
	if !clean {
		os.Exit(1)
	}
}

// lint prints the warnings of one file; there being any is an error.
func lint(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	source := llb.NewSourceMap(nil, path, "Dockerfile", text)
	source.Definition = &llb.Definition{}
	results, err := dockerfile2llb.DockerfileLint(context.Background(), text, dockerfile2llb.ConvertOpt{
		MetaResolver: noRegistry{},
		SourceMap:    source,
	})
	if err != nil {
		return err
	}
	for _, w := range results.Warnings {
		if err := w.PrintTo(os.Stderr, results.Sources, nil); err != nil {
			return err
		}
	}
	switch n := len(results.Warnings); {
	case results.Error != nil:
		return errors.New(results.Error.Message)
	case n > 0:
		return fmt.Errorf("%d warnings", n)
	}
	return nil
}

// noRegistry stands for the configuration of any base image: an empty one of the platform that is asked for.
type noRegistry struct{}

func (noRegistry) ResolveImageConfig(_ context.Context, ref string, opt sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	var image ocispecs.Image
	if opt.ImageOpt != nil && opt.ImageOpt.Platform != nil {
		image.Platform = *opt.ImageOpt.Platform
	}
	config, err := json.Marshal(image)
	return ref, "", config, err
}
