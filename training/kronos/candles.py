"""Synthetic candles: open, high, low, close, volume, amount, and their time stamps.

Every series has parameters of its own: volatility that clusters, follows the hour and answers to past returns, fat
tails, jumps, gaps after a pause, levels that wander or revert, ticks, volume that follows the clock and the range.
Nothing here is fitted to any real data set. All of it is vectorised over series; only recursions loop over bars.
"""

import math

import torch

from calendars import draw_calendar


class Draw:
    """Random numbers of one generator: `row` gives one number per series [rows, 1], `bar` one per bar."""

    def __init__(self, random, rows, bars):
        self.random, self.rows, self.bars, self.device = random, rows, bars, random.device

    def row(self, low=0.0, high=1.0):
        return low + (high - low) * torch.rand(self.rows, 1, generator=self.random, device=self.device)

    def row_logarithmic(self, low, high):
        return self.row(math.log(low), math.log(high)).exp()

    def row_normal(self):
        return torch.randn(self.rows, 1, generator=self.random, device=self.device)

    def chance(self, probability):
        return self.row() < probability

    def bar(self):
        return torch.rand(self.rows, self.bars, generator=self.random, device=self.device)

    def normal(self):
        return torch.randn(self.rows, self.bars, generator=self.random, device=self.device)

    def fat_tailed(self, lowest=3.0, highest=40.0):
        """Student t noise of unit variance with a degree of freedom of each series' own."""
        freedom = self.row_logarithmic(lowest, highest)
        shape = (freedom / 2).expand(self.rows, self.bars).contiguous()
        chi_square = 2 * torch._standard_gamma(shape, generator=self.random)
        return self.normal() * ((freedom - 2) / chi_square.clamp_min(1e-6)).sqrt()


def persistence(half_life):
    return torch.exp(math.log(0.5) / half_life)


def autoregressions(noises, persistences):
    """First-order autoregressions of unit variance, all in one loop: lists of [rows, bars] and [rows, 1]."""
    noise = torch.stack(noises).permute(2, 0, 1).contiguous()
    memory = torch.stack(persistences)[..., 0]
    fresh = (1 - memory**2).sqrt()
    noise[1:] *= fresh
    for step in range(1, len(noise)):
        noise[step].addcmul_(memory, noise[step - 1])
    return noise.permute(1, 2, 0).contiguous().unbind(0)


def later(values):
    """The values of the bar before, 0 at the first."""
    return torch.nn.functional.pad(values[:, :-1], (1, 0))


def session_profile(draw, calendar):
    """A random shape over the session: a smile, a spike at the open, a few harmonics."""
    phase = calendar.phase
    smile = draw.row(-0.2, 1.0) * (3 * (2 * phase - 1) ** 2 - 1)
    spike = draw.row(0, 1.5) * torch.exp(-calendar.bar / draw.row_logarithmic(0.5, 6))
    waves = sum(draw.row_normal() * 0.4 / order * torch.cos(2 * math.pi * (order * phase + draw.row())) for order in (1, 2, 3))
    round_the_clock = calendar.session_bars * calendar.minutes == 1440
    return torch.where(calendar.session_bars == 1, 0.0, torch.where(round_the_clock, waves, smile + spike + 0.4 * waves))


def log_volatility(draw, calendar, shock, profile):
    """Log volatility of every bar relative to its usual level: two autoregressions, the clock, past shocks."""
    before = later(shock)
    leverage = draw.row(-0.5, 0.15) * draw.chance(0.6)
    response = draw.row(0, 0.6) * draw.chance(0.7)
    fast_noise = draw.normal() + leverage * before + response * (before.abs().clamp_max(6) - 0.75)
    slow, fast = autoregressions([draw.normal(), fast_noise],
                                 [persistence(draw.row_logarithmic(40, 2000)), persistence(draw.row_logarithmic(2, 40))])
    weekdays = 0.1 * torch.randn(draw.rows, 7, generator=draw.random, device=draw.device)
    result = draw.row(0.05, 0.55) * slow + draw.row(0, 0.4) * fast + weekdays.gather(1, calendar.weekday)
    return result + draw.row(0, 0.7) * profile, slow, fast


def gap_sizes(draw, calendar, usual):
    """Standard deviation of the jump between the close before and the open of every bar."""
    intraday, around_the_clock = calendar.session_bars > 1, calendar.days_a_week == 7
    overnight = draw.row(0.15, 0.9) * usual * calendar.session_bars.sqrt() * (1 + 0.3 * (calendar.pause > 2800))
    after_break = 0.3 * overnight
    paused = torch.where(calendar.opens, overnight, after_break) * (calendar.pause > 0)
    daily_overnight = draw.row(0.1, 0.9) * usual * (1 + 0.3 * (calendar.pause > 1440)) * ~around_the_clock
    no_gap = draw.chance(0.15) & ~intraday
    quote_noise = usual * draw.row_logarithmic(0.01, 0.3) * draw.chance(0.4)
    return torch.where(intraday, paused, torch.where(no_gap, 0.0, daily_overnight)) + quote_noise


def log_prices(draw, calendar):
    """Log opens, highs, lows and closes, each relative to the start, and what volume needs of their making."""
    profile = session_profile(draw, calendar)
    shock = draw.fat_tailed()
    relative, slow, fast = log_volatility(draw, calendar, shock, profile)
    daily = draw.row_logarithmic(0.003, 0.06)
    usual = daily * (calendar.minutes / torch.where(calendar.days_a_week == 7, 1440, calendar.session_bars * calendar.minutes)).sqrt()
    usual = torch.where(calendar.days_a_week == 1, daily * 2.2, usual)

    reverts = draw.chance(0.25)
    usual = torch.where(reverts, usual * draw.row(1, 2.5), usual)
    pull = torch.where(reverts, 1 - persistence(draw.row_logarithmic(4, 300)), 0.0)
    volatility = usual * relative.clamp(-3, 2.5).exp()
    shock = shock + (draw.row_normal() * 0.04 - 0.12 * draw.row() * draw.chance(0.25)) * later(shock)
    jump = draw.normal() * draw.row(2, 7) * (draw.bar() < draw.row_logarithmic(1e-3, 2e-2)) * draw.chance(0.4)
    jump = torch.where(reverts & draw.chance(0.5), jump.abs(), jump)
    trend = autoregressions([draw.normal()], [persistence(draw.row_logarithmic(20, 300))])[0] * draw.row(0, 0.1) * draw.chance(0.3)
    body = volatility * (shock + jump + trend) + usual * draw.row_normal() * 0.02
    gap = gap_sizes(draw, calendar, usual) * draw.fat_tailed(3.0, 10.0) * relative.mul(0.5).clamp(-1, 1).exp()

    body, gap = body.clamp(-0.5, 0.5).t().contiguous(), gap.clamp(-0.5, 0.5).t().contiguous()
    level_answers = (draw.row(0, 1.0) * reverts)[:, 0]  # the volatility of an index like VIX grows with its level
    pull, level = pull[:, 0], torch.zeros_like(body[0])
    opens, closes = torch.empty_like(body), torch.empty_like(body)
    for step in range(draw.bars):
        size = torch.exp((level_answers * level).clamp(-1, 1))
        opens[step] = level + gap[step] * size
        level = opens[step] + body[step] * size - pull * level
        closes[step] = level
    opens, closes = opens.t().clamp(-5, 5), closes.t().clamp(-5, 5)

    # extremes of a Brownian bridge from open to close
    move = closes - opens
    inner = volatility * draw.row(0.5, 1.5)
    reach = torch.sqrt(move**2 - 2 * inner**2 * torch.log(draw.bar().clamp_min(1e-6)))
    depth = torch.sqrt(move**2 - 2 * inner**2 * torch.log(draw.bar().clamp_min(1e-6)))
    wickless = draw.row(0, 0.6) * draw.chance(0.15)
    upper = (reach - move.abs()) / 2 * (draw.bar() >= wickless)
    lower = (depth - move.abs()) / 2 * (draw.bar() >= wickless)
    highs, lows = torch.maximum(opens, closes) + upper, torch.minimum(opens, closes) - lower
    busy = torch.log((highs - lows + 0.1 * usual) / usual) - 0.5
    return (opens, highs, lows, closes), usual, profile, busy, slow, fast


def volumes(draw, calendar, profile, busy, slow, fast):
    """Volume that follows the clock, the range of the bar and a memory of its own."""
    memory, mood = autoregressions([draw.normal(), draw.normal()],
                                   [persistence(draw.row_logarithmic(30, 1000)), persistence(draw.row_logarithmic(1, 30))])
    weekdays = 0.15 * torch.randn(draw.rows, 7, generator=draw.random, device=draw.device)
    own_profile = session_profile(draw, calendar)
    share = draw.row()
    logarithm = draw.row(0.2, 1.2) * (share * profile + (1 - share) * own_profile) + draw.row(0.1, 1.0) * busy.clamp(-2, 2.5)
    logarithm = logarithm + draw.row(0, 0.5) * memory + draw.row(0, 0.5) * mood + weekdays.gather(1, calendar.weekday)
    logarithm = logarithm + draw.row(0, 0.3) * slow + draw.row(0, 0.3) * fast + draw.row(0.05, 0.6) * draw.fat_tailed(4.0, 30.0)
    scale = draw.row_logarithmic(1, 1e9)
    volume = scale * logarithm.clamp(-6, 5).exp()
    volume = torch.where((scale < 1e4) & draw.chance(0.7), volume.round(), volume)
    idle = (draw.bar() < draw.row(0, 0.3)) & draw.chance(0.04)
    return torch.where(idle, 0.0, volume)


@torch.no_grad()
def make_candles(random, rows, bars):
    """Candles [rows, bars, 6] and stamps [rows, bars, 5]; `random` is a torch.Generator on the device wanted."""
    draw = Draw(random, rows, bars)
    calendar = draw_calendar(random, rows, bars)
    prices, usual, profile, busy, slow, fast = log_prices(draw, calendar)
    scale = torch.where(draw.chance(0.06), draw.row_logarithmic(1e-4, 0.05), draw.row_logarithmic(0.05, 1e5))
    tick = torch.where(draw.chance(0.6), scale * usual * draw.row_logarithmic(3e-3, 1.5), scale * 1e-6)
    prices = torch.stack([scale * value.exp() for value in prices], -1)
    prices = ((prices / tick[..., None]).round() * tick[..., None]).maximum(tick[..., None])
    flat = draw.chance(0.01)[..., None]
    prices = torch.where(flat, prices[..., 3:], prices)
    volume = volumes(draw, calendar, profile, busy, slow, fast)
    inside = torch.where(draw.chance(0.5), 0.0, draw.row(0, 0.3)) * usual * draw.normal()
    amount = volume * prices.mean(-1) * (1 + inside).clamp(0.8, 1.2) * torch.where(draw.chance(0.2), 100.0, 1.0)
    traded = ~draw.chance(0.12)
    candles = torch.cat([prices, (volume * traded)[..., None], (amount * traded)[..., None]], -1)
    return candles, calendar.stamps


class Pool:
    """Series made in advance; each is used a few times, each time as another window, then all are made anew."""

    def __init__(self, seed, device, rows, bars=640, uses=2):
        self.random = torch.Generator(device).manual_seed(seed)
        self.rows, self.bars, self.uses, self.left = rows, bars, uses, 0

    def take(self, count, length):
        """Windows of `length` bars of `count` series: candles [count, length, 6] and stamps [count, length, 5]."""
        if self.left < count:
            self.candles, self.stamps = make_candles(self.random, self.rows, self.bars)
            self.left = self.rows * self.uses
        at = self.left % self.rows
        self.left -= count
        device = self.random.device
        row = (at + torch.arange(count, device=device)) % self.rows
        start = torch.randint(self.bars - length + 1, (count, 1), generator=self.random, device=device)
        place = start + torch.arange(length, device=device)
        return self.candles[row[:, None], place], self.stamps[row[:, None], place]
