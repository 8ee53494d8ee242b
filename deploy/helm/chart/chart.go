// Package chart renders the chart beside it as `helm template` does, by Helm's own library: the manifests in deploy/kubernetes are made so.
package chart

import (
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1/util"
)

// Render is what the chart in a directory makes of some values, in the order in which Helm installs it.
func Render(directory string, values map[string]any) (string, error) {
	chart, err := loader.LoadDir(directory)
	if err != nil {
		return "", err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "quiver", Namespace: "default", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return "", err
	}
	for name := range files {
		// Templates that only define some for others, and what Helm says to whoever has installed it.
		if strings.HasSuffix(name, ".tpl") || strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	_, documents, err := release.SortManifests(files, nil, release.InstallOrder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, document := range documents {
		out.WriteString("---\n" + strings.TrimSpace(document.Content) + "\n")
	}
	return out.String(), nil
}
