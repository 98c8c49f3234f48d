"""Pictures of scenes on the GPU, cut into patches as the image processor does: the same shapes as scenes.render."""
import math

import torch

import scenes
import tiny

STAR = [((1.0 if i % 2 == 0 else 0.42) * math.sin(i * math.pi / 5), -(1.0 if i % 2 == 0 else 0.42) * math.cos(i * math.pi / 5)) for i in range(10)]


def _star(dx, dy):
    """Inside the ten-cornered star: an odd number of edges crossed on the way to the right."""
    inside = torch.zeros_like(dx, dtype=torch.bool)
    for (x0, y0), (x1, y1) in zip(STAR, STAR[1:] + STAR[:1]):
        crosses = (dy >= y0) != (dy >= y1)
        inside ^= crosses & (dx < x0 + (dy - y0) * (x1 - x0) / (y1 - y0 if y1 != y0 else 1))
    return inside


def draw(pictures, side=tiny.SIDE):
    """[n, 21] as of stream.picture -> [n, side, side, 3] in 0..1."""
    device = pictures.device
    backgrounds = torch.tensor(list(scenes.BACKGROUNDS.values()), device=device, dtype=torch.float32) / 255
    colours = torch.tensor(list(scenes.RGB.values()), device=device, dtype=torch.float32) / 255
    out = backgrounds[pictures[:, 0].long()][:, None, None, :].expand(-1, side, side, -1).clone()
    centre = (torch.arange(side, device=device) + 0.5) / side
    for shape in pictures[:, 1:].reshape(len(pictures), -1, 5).unbind(1):
        kind, colour, x, y, r = shape.unbind(1)
        r = r.clamp(min=1e-6)[:, None, None]
        dx = (centre[None, None, :] - x[:, None, None]) / r
        dy = (centre[None, :, None] - y[:, None, None]) / r
        dx, dy = torch.broadcast_tensors(dx, dy)
        forms = torch.stack([dx * dx + dy * dy < 1, (dx.abs() < 1) & (dy.abs() < 1), (dy.abs() < 1) & (dx.abs() < (dy + 1) / 2), _star(dx, dy)])
        inside = forms.gather(0, kind.long().clamp(min=0)[None, :, None, None].expand(1, -1, side, side))[0] & (kind >= 0)[:, None, None]
        out = torch.where(inside[..., None], colours[colour.long()][:, None, None, :], out)
    return out


def patches(images):
    """[n, side, side, 3] -> ([n, patches, 768], positions [n, patches, 2] as (x, y))."""
    n, side = images.shape[:2]
    grid, p = side // tiny.PATCH, tiny.PATCH
    cut = images.reshape(n, grid, p, grid, p, 3).permute(0, 1, 3, 2, 4, 5).reshape(n, grid * grid, p * p * 3)
    at = torch.arange(grid * grid, device=images.device)
    return cut, torch.stack([at % grid, at // grid], -1)[None].expand(n, -1, -1)
