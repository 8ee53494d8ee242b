package main

import (
	"fmt"
	"runtime/debug"
)

// The version of Quiver that this is of.
const version = "0.1.0"

// versionLine is what the program says of itself: its version, and the commit that it is made of, if that is known.
func versionLine() string {
	text := "kubectl-quiver " + version
	built, known := debug.ReadBuildInfo()
	if !known {
		return text
	}
	for _, setting := range built.Settings {
		if setting.Key == "vcs.revision" {
			text += fmt.Sprintf(" (commit %.12s)", setting.Value)
		}
	}
	return text
}
