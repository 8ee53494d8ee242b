// Command k8sbox is a whole Kubernetes in one binary, for tests: it is the component that its first argument names. One program links
// once what all of them share, so that it is built in a tenth of the time and space of seven.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// What it can be, etcd apart, which brings its own main function.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": manager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	// A component sees its own name where its program's would stand, as if it were alone.
	if name == "etcd" {
		etcdmain.Main(os.Args[1:])
		return
	}
	component := components[name]
	if component == nil {
		fmt.Fprintf(os.Stderr, "usage: k8sbox %s [ARGUMENT…]\n", strings.Join(names(), "|"))
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(component()))
}

func names() []string {
	all := []string{"etcd"}
	for name := range components {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
