// Command quiver-cni is the CNI plugin of Quiver. It keeps nothing and decides nothing: quiver-agent does.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"quiver/kubernetes/internal/plugin"
)

func main() {
	skel.PluginMainFuncs(plugin.Functions(), version.PluginSupports("0.4.0", "1.0.0", "1.1.0"), "quiver-cni: pods' interfaces by Quiver")
}
