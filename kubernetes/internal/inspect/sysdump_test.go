package inspect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

func TestADumpHasWhatNodesSayAndTellsWhatTheyDont(t *testing.T) {
	quiver := func(words []string, out io.Writer) error {
		if words[0] == "doctor" {
			fmt.Fprintln(out, "bad   tun")
			return errors.New("command terminated with exit code 1")
		}
		fmt.Fprintln(out, strings.Join(words, " "))
		return nil
	}
	agent := func(words []string, out io.Writer) error {
		fmt.Fprintln(out, strings.Join(words, " "))
		return nil
	}
	log := func(container string, before bool, out io.Writer) error {
		_, err := fmt.Fprintln(out, container, before)
		return err
	}
	there := pod(core.ConditionTrue, core.ContainerStatus{Name: "quiverd", RestartCount: 1}, core.ContainerStatus{Name: "quiver-agent"})
	all, missing := dump(Node{Name: "n1", Pod: there}, quiver, agent, log)
	none, absent := dump(Node{Name: "n2", Pod: nil}, nil, nil, nil)
	if missing != 1 || absent != 1 {
		t.Errorf("missing %d and %d, not 1 and 1", missing, absent)
	}
	var packed bytes.Buffer
	if err := archive(&packed, append(all, none...), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, &packed)
	for name, want := range map[string]string{
		"n1/doctor.txt":               "bad   tun\n\ncommand terminated with exit code 1\n",
		"n1/show-drops---explain.txt": "show drops --explain\n",
		"n1/host.txt":                 "host\n",
		"n1/agent-readyz.txt":         "probe get 127.0.0.1:9478/readyz\n",
		"n1/agent-metrics.txt":        "probe get 127.0.0.1:9478/metrics\n",
		"n1/logs/quiverd.txt":         "quiverd false\n",
		"n1/logs/quiverd-before.txt":  "quiverd true\n",
		"n1/logs/quiver-agent.txt":    "quiver-agent false\n",
		"n2/pod.json":                 "\nnode n2 has no pod of Quiver\n",
	} {
		if got := files["quiver-sysdump/"+name]; got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if len(files) != len(questions)+len(agentQuestions)+5 || !strings.Contains(files["quiver-sysdump/n1/pod.json"], `"restartCount": 1`) {
		t.Errorf("files: %v", slices.Sorted(maps.Keys(files)))
	}
}

func unpack(t *testing.T, packed io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tape := tar.NewReader(zip); ; {
		header, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}
