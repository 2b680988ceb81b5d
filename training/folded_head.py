"""The forward pass for training: the package's model with its linear output layers multiplied together first.

The package maps every token to patch_size * embed_dim numbers and those to the parameters of the mixture. Both
maps are linear with nothing between them, so their product gives the same parameters, and the same gradients of
both, for a tenth of the work.
"""

import torch
import torch.nn.functional as functional


def folded_weights(backbone):
    """Weight [patch * 4 * components, embed] and bias of token -> (freedom, location, spread, weight) per point."""
    head = backbone.output_distribution
    layers = (head.df, head.loc_proj, head.scale_proj, head.mixture_weights)
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers])
    width = backbone.embed_dim
    unembed = backbone.unembed.weight.view(-1, width, width)
    folded = torch.matmul(weight, unembed).reshape(-1, width)
    folded_bias = backbone.unembed.bias.view(-1, width) @ weight.T + bias
    return folded, folded_bias.reshape(-1)


def forward(backbone, inputs, observed):
    """Returns raw mixture parameters, each [batch, variate, time, component], and the scaler's location and scale."""
    scaled, location, scale = backbone.scaler(inputs, weights=torch.ones_like(inputs), padding_mask=observed)
    identity = torch.zeros(inputs.shape, dtype=torch.int)
    embeddings, reduced_identity = backbone.patch_embed(scaled, identity)
    tokens = backbone.transformer(embeddings, reduced_identity, None)
    parameters = functional.linear(tokens, *folded_weights(backbone))
    batch, variates, time = inputs.shape
    parameters = parameters.view(batch, variates, time, 4, -1)
    return parameters.unbind(3), location, scale


def mixture(parameters):
    """Degrees of freedom, locations, spreads and log weights of the components, as the package defines them."""
    freedom, place, spread, logits = parameters
    smallest = torch.finfo(freedom.dtype).eps
    freedom = 2.0 + functional.softplus(freedom).clamp_min(smallest)
    spread = functional.softplus(spread).clamp_min(smallest)
    return freedom, place, spread, torch.log_softmax(logits, -1)


def log_probability(components, target):
    """Log density of the mixture of Student t distributions."""
    freedom, place, spread, log_weight = components
    half = 0.5 * freedom
    normaliser = torch.lgamma(half + 0.5) - torch.lgamma(half) - 0.5 * torch.log(freedom * torch.pi) - torch.log(spread)
    standardised = (target.unsqueeze(-1) - place) / spread
    density = normaliser - (half + 0.5) * torch.log1p(standardised**2 / freedom)
    return torch.logsumexp(log_weight + density, -1)


def agreement(model, inputs, observed, target):
    """Largest difference of the log density from the package's own forward pass (a check, see train.py)."""
    with torch.no_grad():
        parameters, location, scale = forward(model.model, inputs, observed)
        ours = log_probability(mixture(parameters), target)
        output = model.model(inputs, observed, torch.zeros(inputs.shape, dtype=torch.int))
        return float((ours - output.distribution.log_prob(target)).abs().max())
