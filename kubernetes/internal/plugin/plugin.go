package plugin

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
)

// Functions are the operations of CNI.
func Functions() skel.CNIFuncs {
	return skel.CNIFuncs{Add: add, Del: del, Check: check, GC: gc, Status: readiness}
}

func add(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	if config.RawPrevResult != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: quiver-cni comes after another plugin", config.Name),
			"put it first: it makes the interface that the others work on")
	}
	pod, err := readArgs(args.Args)
	if err != nil {
		return err
	}
	var response *agentv1.AddResponse
	err = call(config, true, func(ctx context.Context, agent agentv1.PodNetworkClient) (err error) {
		response, err = agent.Add(ctx, &agentv1.AddRequest{
			Attachment:   attachmentOf(args),
			Netns:        args.Netns,
			PodNamespace: string(pod.K8S_POD_NAMESPACE),
			PodName:      string(pod.K8S_POD_NAME),
			PodUid:       string(pod.K8S_POD_UID),
			Annotations:  config.RuntimeConfig.Annotations,
			HostPorts:    config.hostPorts(),
			Network:      config.Name,
		})
		return err
	})
	if err != nil {
		return worded(err)
	}
	result, err := resultOf(args, response)
	if err != nil {
		return err
	}
	return types.PrintResult(result, config.CNIVersion)
}

// del succeeds also when nobody is there to ask: word is left, and the agent does the rest when it comes.
func del(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	unheard := call(config, false, func(ctx context.Context, agent agentv1.PodNetworkClient) error {
		_, err := agent.Del(ctx, &agentv1.DelRequest{Attachment: attachmentOf(args)})
		return err
	})
	if unheard == nil || !unreachable(unheard) {
		return worded(unheard)
	}
	directory := filepath.Join(config.StateDirectory, "deleted")
	if err := attachment.Farewells(directory).Leave(attachment.ID{Container: args.ContainerID, Interface: args.IfName}); err != nil {
		return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("%v, and no word can be left for it: %v", unheard, err), "see whether the disk is full")
	}
	return nil
}

func check(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	addresses, routes, err := config.believed(args)
	if err != nil {
		return err
	}
	return worded(call(config, true, func(ctx context.Context, agent agentv1.PodNetworkClient) error {
		_, err := agent.Check(ctx, &agentv1.CheckRequest{Attachment: attachmentOf(args), Netns: args.Netns, Addresses: addresses, Routes: routes})
		return err
	}))
}

func gc(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	request := &agentv1.GcRequest{Network: config.Name}
	for _, valid := range config.ValidAttachments {
		request.Valid = append(request.Valid, &agentv1.Attachment{ContainerId: valid.ContainerID, Interface: valid.IfName})
	}
	return worded(call(config, true, func(ctx context.Context, agent agentv1.PodNetworkClient) error {
		_, err := agent.Gc(ctx, request)
		return err
	}))
}

func readiness(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	err = worded(call(config, false, func(ctx context.Context, agent agentv1.PodNetworkClient) error {
		_, err := agent.Status(ctx, &agentv1.StatusRequest{})
		return err
	}))
	if failed, is := err.(*types.Error); is {
		// STATUS has a number of its own for "ADD can't work".
		failed.Code = types.ErrPluginNotAvailable
	}
	return err
}
