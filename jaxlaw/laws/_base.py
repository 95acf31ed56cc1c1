"""What a law is: a pure JAX formula with named inputs and parameters.

A law is one decorated function. Inputs come first, by name; parameters follow the ``*``,
and the default of each says what kind of number it is::

    from jaxlaw.laws import exponent, positive, power

    @jl.law
    def shifted_power(N, *, E=positive(0.5, 3), A=positive(0.1, 10, centre={"N": "alpha"}),
                      alpha=exponent()):
        return E + A * power(N, -alpha)

Nothing else is needed: fits, folds, bootstraps and plans treat it like a built-in law.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._arrays import as_real
from jaxlaw._jit import compiled, padded, size_class, traced_once
from jaxlaw._typed import READERS
from jaxlaw.errors import JaxlawError, NotHereError, UsageError, listed, nearest
from jaxlaw.laws._linear import linear_parameters
from jaxlaw.laws._parameters import INPUTS, Input, Parameter

Array = jax.Array
Values = Mapping[str, Any]
_LONG = 2**14  # rows of a table that is evaluated as it is
# Words of an error of JAX or numpy → what a user's formula most often does to raise it, mended.
_REMEDIES = (
    ("TracerArrayConversionError", "use jax.numpy (jnp) in place of numpy"),
    ("TracerBoolConversionError", "use jnp.where in place of if"),
    ("truth value of an array", "use jnp.where in place of if"),
    ("ConcretizationTypeError", "leave out float() and int()"),
    ("", "it must take any number of rows: use no arrays of a fixed length in it"),
)


@dataclass(frozen=True)
class Constraint:
    """A requirement on parameters that is met by construction.

    The law's parameter ``raises`` is searched as its excess (positive) over a least value
    that the other parameters and the observed ranges imply.

    Attributes:
        name: ``paper`` or ``observed``.
        raises: the parameter that the constraint keeps large enough.
        least: ``least(params, context) -> scalar``, the least value of it.
        active_at: parameter → ``low`` or ``high``, the bounds of other parameters that belong to
            the requirement too: where one of them is active, so is the constraint.
    """

    name: str
    raises: str
    least: Callable[[Values, Values], Array]
    active_at: Mapping[str, str] = field(default_factory=dict)


def _nothing(*given: Values) -> dict[str, Array]:
    """What a law without a chart moves, and needs to know of the data."""
    return {}


@dataclass(frozen=True)
class Chart:
    """Coordinates in which a curved valley of a law is straight.

    Attributes:
        low, high: for each parameter it replaces, the range of the coordinate that stands
            in its place.
        to_natural: ``f(values, context)``, natural values of the replaced parameters.
        from_natural: ``f(values, context)``, the coordinates, from natural values.
        limits: (parameter, ``low`` or ``high``) → what the law becomes at that end of the
            coordinate, as a sentence: a fit that ends there has it as its note.
    """

    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    to_natural: Callable[[Values, Values], dict[str, Array]] = _nothing
    from_natural: Callable[[Values, Values], dict[str, Array]] = _nothing
    limits: Mapping[tuple[str, str], str] = field(default_factory=dict)


def mirrored(
    low: Mapping[str, float],
    high: Mapping[str, float],
    move: Callable[..., dict[str, Array]],
    limits: Mapping[tuple[str, str], str] | None = None,
) -> Chart:
    """A chart by ``move(values, context, sign)``: sign 1 to natural values, and −1 from them."""
    return Chart(low, high, partial(move, sign=1), partial(move, sign=-1), limits or {})


class PowerLawTerms(NamedTuple):
    """A law of N and D as E + A/N^α + B/(D^β·N^γ), its other inputs held; in its own units.

    Attributes:
        A, B, alpha, beta, gamma: numbers or arrays; E does not matter to the best N and D.
    """

    A: Any
    B: Any
    alpha: Any
    beta: Any
    gamma: Any = 0.0


class ScaleFree(NamedTuple):
    """Coordinates of a law that mean the same whatever the unit of its target.

    A loss per token and one per byte of the same runs differ by a factor, and so do ``E``, ``A``
    and ``B``. What one experiment teaches about another is in numbers without that factor: the
    floor's fraction of the loss at a reference point, the balance of the other terms there,
    the exponents. A :class:`jaxlaw.fitting.Prior` is a distribution over them.

    Attributes:
        reference: input → its value at the reference point, in the law's own units.
        words: coordinate → what it is, for people; its keys name the coordinates, in order.
        of_params: ``f(params) -> {coordinate: value}`` from natural values, by ``jax.numpy``; it
            has ``log_floor`` beside the coordinates, which does have the unit of the target.
        to_params: ``f(target, {coordinate: value}) -> params``, the inverse, by numpy, or by
            ``jax.numpy`` of arrays of JAX: natural values with which the law gives ``target`` at
            the reference point; of the parameters that the coordinates determine.
        parts: names under which a prior knows these coordinates; those of the law's own name if
            empty.
        open: parameters that the coordinates say nothing of.

    Of a law of groups they are those of each group: numbers and targets are arrays (groups,).
    """

    reference: Mapping[str, float]
    words: Mapping[str, str]
    of_params: Callable[[Values], dict[str, Array]]
    to_params: Callable[[Any, Values], dict[str, Any]]
    parts: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Law:
    """A scaling law: formula, inputs, parameters, source.

    Laws compare and hash by identity, so that compiled programs are found again. A pickled law
    comes back as the object that is there already: a built-in law from the registry, a law that
    a module holds from that module. Any other law is pickled whole, with its function.

    Attributes:
        name: its name in :func:`jaxlaw.fit` and on the command line.
        function: ``function(*inputs, **parameters)``, pure and elementwise.
        inputs, parameters: their specifications, in the order of the function.
        formula, source: texts for people.
        target: the name of what the law predicts.
        delta: the Huber threshold of its source.
        residuals: ``log`` for residuals of the target's logarithm, ``linear`` for its own.
        linear: parameters in which the formula is linear, the others held; None to have them read
            off the formula (:attr:`linear_parameters`).
        from_base: parameters its source takes over from a from-scratch fit.
        constraint: see :class:`Constraint`.
        chart: see :class:`Chart`.
        context: ``context(inputs) -> dict of scalars``, what constraint and chart need to
            know of the data (inputs in the law's own units).
        requirements: ``requirements(law, params, ranges) -> list of (Note, size)``, what the
            source demands of a fitted law and this one does not meet, and how much of the target
            that is, relative: within the runs' scatter the note only informs. The size is infinite
            where there is none.
        better: whether a low target is the better one (a loss), a high one (a score) or neither
            (a best learning rate).
        with_floor: the law that has the irreducible loss which this one lacks, if any; a fit whose
            residuals ask for it names it.
        continual_alone: name of the law for curves of a continual phase alone, where this one needs
            the pre-training before it, if there is one.
        components: part of the formula → the coefficients that take it out where they are 0.
            ``annealing`` and ``shift`` are what :meth:`jaxlaw.FittedLaw.predict_curve` shows apart.
        power_law_terms: ``power_law_terms(params, inputs) -> PowerLawTerms``, for laws that rise
            with such a sum where their inputs beside N and D are held: the compute-optimal N and D
            then have a closed form.
        scale_free: see :class:`ScaleFree`; None of a law that no prior knows.
        best_settings: input, such as a learning rate → ``function(params, inputs)``, its value at
            which the target is best, given the other inputs; of laws whose formula has it.
        settings_parameters: parameters of the best settings of a run, and of what missing them
            costs: the loss at the best settings is a matter of the others.
        of_groups: label of a group → parameters that its rows alone depend on.
        continual_tokens: the input that is the tokens of continual runs, if there is one: runs then
            grow along their bases.

    Example:
        >>> law = jl.laws.get("loss-compute")
        >>> law.formula, float(law({"a": 30.0, "b": 0.0}, C=1e21))
        ('a·C^−b', 30.0)
    """

    name: str
    function: Callable[..., Array]
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    formula: str = ""
    source: str = ""
    target: str = "loss"
    delta: float = 1e-3
    residuals: Literal["log", "linear"] = "log"
    linear: tuple[str, ...] | None = None
    from_base: tuple[str, ...] = ()
    constraint: Constraint | None = None
    chart: Chart | None = None
    context: Callable[[Values], dict[str, Array]] = _nothing
    requirements: Callable[..., list[tuple[Any, ...]]] | None = None
    with_floor: str = ""
    continual_alone: str = ""
    better: Literal["low", "high", "neither"] = "low"
    components: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    power_law_terms: Callable[[Values, Values], PowerLawTerms] | None = None
    scale_free: ScaleFree | None = None
    best_settings: Mapping[str, Callable[[Values, Values], Any]] = field(default_factory=dict)
    settings_parameters: tuple[str, ...] = ()
    of_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    continual_tokens: str = ""

    def __repr__(self) -> str:
        """Name and formula, as in the head of a fit."""
        return f"<Law {self.name}: {self.target} = {self.formula}>"

    def to_json(self) -> str:
        """What files hold of it: its name, with that of its constraint as ``dcpt:paper``."""
        return self.name if self.constraint is None else f"{self.name}:{self.constraint.name}"

    @property
    def program_name(self) -> str | None:
        """The name of the law in the keys of compiled programs; None for a user's own law.

        Another process finds a program by this name, so that it must mean the same law there:
        one that jaxlaw brings itself, or an unchanged law made of such laws (groups, mixtures).
        """
        if isinstance(self.function, Derived):
            maker, made_of = self.function.maker, self.function.made_of
            bases = [part.program_name for part in made_of if isinstance(part, Law)]
            from_jaxlaw = maker.__module__.startswith("jaxlaw.") and all(bases)
            return self.name if from_jaxlaw and maker(*made_of) is self else None
        return next((name for name, law in _BUILT_IN.items() if law is self), None)

    def __call__(self, params: Mapping[str, Any], *others: Any, **inputs: Any) -> Array:
        """Evaluate the formula, as ``law(params, N=1e9, D=2e10)``.

        Args:
            params: natural values by name (scalars or arrays that broadcast with inputs).
            *others: none; inputs have names.
            **inputs: arrays by name, in the law's own units.

        Returns:
            The predicted target, of the broadcast shape.

        Raises:
            UsageError: parameters or inputs are missing, or the function fails on arrays of these
                shapes.
        """
        for kind, names, given in (
            ("parameters", self.parameter_names, params),
            ("inputs", self.input_names, inputs),
        ):
            missing = [
                name for name in names if not isinstance(given, Mapping) or name not in given
            ]
            if others or missing:
                usage = ", ".join(["params", *(f"{name}=…" for name in self.input_names)])
                lacks = f" lacks the {kind} {', '.join(missing)};" if missing else ""
                raise UsageError(f"law {self.name}{lacks or ':'} call it as law({usage})")
        params = {name: as_real(value) for name, value in params.items()}
        inputs = {name: as_real(inputs[name]) for name in self.input_names}
        given = list(inputs.values())
        try:
            target = self.function(*given, **params)
            if target is None or isinstance(target, list | tuple | Mapping):
                raise UsageError(
                    f"law {self.name} must return one array, with one value per row, not "
                    f"{'None' if target is None else type(target).__name__}"
                )
            # A formula that ignores an input still has a value for each of its rows.
            per_row = [np.shape(inputs[name]) for name in self.inputs_per_row]
            shape = np.broadcast_shapes(np.shape(target), *per_row)
        except JaxlawError:
            raise
        except (TypeError, ValueError) as error:
            sizes = zip(self.input_names, map(np.shape, given), strict=True)
            shapes = ", ".join(f"{name} {shape}" for name, shape in sizes)
            remedy = next(
                text for sign, text in _REMEDIES if sign in f"{type(error).__name__}: {error}"
            )
            raise UsageError(
                f"law {self.name} fails on inputs of the shapes {shapes}: "
                f"{str(error).strip().splitlines()[0].rstrip('.')}; {remedy}"
            ) from error
        return target if np.shape(target) == shape else jnp.broadcast_to(target, shape)

    def evaluate(self, params: Mapping[str, Any], **inputs: Any) -> Array:
        """The same as one compiled program, where a call compiles every operation by itself.

        Args and returns are those of a call.

        Example:
            >>> law = jl.laws.get("loss-compute")
            >>> float(law.evaluate({"a": 30.0, "b": 0.0}, C=1e21))
            30.0
        """
        given = [{name: as_real(value) for name, value in one.items()} for one in (params, inputs)]
        # Compiling for a shape takes twice as long as a fit: tables are padded to few lengths. Long
        # ones, whose copies would take longer, tracers and inputs per drop stay as they are.
        leaves = jax.tree.leaves(given)
        shapes = {np.shape(leaf) for leaf in leaves} - {()}
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        rows = next(iter(shapes))[0] if [len(shape) for shape in shapes] == [1] else 0
        if traced or self.inputs_per_drop or not 0 < rows <= _LONG:
            return _program(self, *given)
        length = size_class(rows)
        whole = jax.tree.map(lambda leaf: padded(leaf, length) if np.shape(leaf) else leaf, given)
        # Cut on the host, and put back by what compiles nothing: jnp.asarray would.
        return jax.device_put(np.asarray(_program(self, *whole))[:rows])

    def __reduce__(self) -> tuple[Any, ...]:
        """By name where the law can be found again, else whole."""
        function = self.function
        if isinstance(function, Derived):
            return function.maker, function.made_of
        if name := self.program_name:
            return built_in, (name,)
        # Workers have another __main__, or none: its laws go whole.
        module = getattr(function, "__module__", None)
        held = vars(sys.modules[module]) if module in sys.modules else {}
        place = next((name for name, value in held.items() if value is self), None)
        if place and module != "__main__":
            return pkgutil.resolve_name, (f"{module}:{place}",)
        # Below @jl.law a function's own name means the law, whose attribute it is.
        owner = held.get(getattr(function, "__qualname__", ""))
        if isinstance(owner, Law) and owner.function is function:
            function.__qualname__ += ".function"
        token = next((key for key, law in _WHOLE.items() if law is self), uuid.uuid4().hex)
        _WHOLE[token] = self
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _rebuild_law, (token, fields)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of the function."""
        return tuple(spec.name for spec in self.inputs)

    @cached_property
    def specs(self) -> dict[str, Input]:
        """Name of an input → what it is."""
        return {spec.name: spec for spec in self.inputs}

    @cached_property
    def inputs_per_drop(self) -> tuple[str, ...]:
        """Names of the inputs that have a value for every drop of the learning rate.

        Where the schedules are known, such an input has an axis more than the others, the last.
        """
        return tuple(spec.name for spec in self.inputs if spec.per_drop)

    @cached_property
    def inputs_per_row(self) -> tuple[str, ...]:
        """Names of the inputs that have one value a row: all but those per drop."""
        return tuple(spec.name for spec in self.inputs if not spec.per_drop)

    def labelled(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs as a user gives them: of observations, labels in place of their numbers."""
        return {spec.name: spec.labels_of(inputs[spec.name]) for spec in self.inputs} | {
            name: values for name, values in inputs.items() if name not in self.input_names
        }

    def one_number_a_row(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Name → (n,) of each input: of one per drop its sum, which differs along a curve.

        Args:
            inputs: name → (n,), or (n, K) of an input per drop.
        """
        return {
            name: inputs[name].reshape(len(inputs[name]), -1).sum(axis=1)
            for name in self.input_names
        }

    @cached_property
    def shares(self) -> tuple[str, ...]:
        """Names of the inputs that are the mixture ratios of one mixture: they add up to 1."""
        return tuple(spec.name for spec in self.inputs if spec.mixture)

    def whole_mixtures(
        self, inputs: Mapping[str, Any], refuse: Callable[[np.ndarray, np.ndarray, str], Exception]
    ) -> dict[str, Any]:
        """Inputs whose mixture ratios add up to 1, to the rounding of their digits.

        Args:
            inputs: name → array, of all inputs; the arrays of the mixture ratios broadcast.
            refuse: error of (which rows are wrong, the sums of all rows, what to do).

        Returns:
            The inputs, with mixture ratios just below 0 as 0.
        """
        if not self.shares:
            return dict(inputs)
        columns = np.broadcast_arrays(*(np.asarray(inputs[name], float) for name in self.shares))
        shares = np.stack(columns)
        shares = np.where((shares < 0) & (shares > -_SHARE_ROUNDING), 0.0, shares)
        sums = shares.sum(axis=0)
        wrong = np.abs(sums - 1.0) > _rounding(shares)
        if wrong.any():
            percent = abs(np.median(sums[wrong]) / 100 - 1) < _MOST_SLACK
            remedy = (
                "they look like percent: divide them by 100"
                if percent
                else "give every corpus its column, or divide each row by its sum"
            )
            raise refuse(wrong, sums, remedy)
        return {**inputs, **dict(zip(self.shares, shares, strict=True))}

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the function."""
        return tuple(spec.name for spec in self.parameters)

    @cached_property
    def linear_parameters(self) -> tuple[str, ...]:
        """Parameters in which the formula is linear, the others held.

        A fit solves for them by least squares. They are read off the formula at a law's first
        fit, unless :attr:`linear` names them.
        """
        if self.linear is not None:
            return self.linear
        per_drop = {spec.name: spec.per_drop for spec in self.inputs}
        return linear_parameters(self.function, per_drop, self.parameter_names)

    def parameter(self, name: str) -> Parameter:
        """The specification of one parameter.

        Raises:
            UsageError: the law has no such parameter.

        Example:
            >>> jl.laws.get("chinchilla").parameter("E").unit
            'nats'
        """
        for spec in self.parameters:
            if spec.name == name:
                return spec
        raise UsageError(
            f"law {self.name} has no parameter '{name}'; it has "
            f"{', '.join(self.parameter_names)}.{nearest(name, self.parameter_names)}"
        )


_SHARE_ROUNDING = 1e-9  # of a mixture ratio computed as 1 less the others
_LEAST_SLACK, _MOST_SLACK = 1e-6, 0.01  # of a sum of mixture ratios: float32, and two digits


def _rounding(shares: np.ndarray) -> np.ndarray:
    """How far sums of (k, …) ratios are from 1 where each is rounded to the digits it has."""
    slack = np.full(shares.shape[1:], _LEAST_SLACK)
    for digits in range(5, 0, -1):
        rounded = (np.abs(shares - np.round(shares, digits)) < _SHARE_ROUNDING).all(axis=0)
        slack = np.where(rounded, len(shares) * 0.5 * 10.0**-digits, slack)
    return np.minimum(slack, _MOST_SLACK) + _SHARE_ROUNDING


@dataclass(frozen=True)
class Derived:
    """The formula of a law made of other laws, or for the columns of a table.

    Attributes:
        formula: ``f(*inputs, **parameters)``.
        maker, made_of: the function that makes the law, and its arguments: what pickle takes, and
            how another process finds the same law.
    """

    formula: Callable[..., Any]
    maker: Callable[..., Law]
    made_of: tuple[Any, ...]

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        """The target at rows."""
        return self.formula(*inputs, **params)


def derived(
    base: Law, name: str, function: Callable, maker: Callable[..., Law],
    made_of: tuple, **changes,
) -> Law:  # fmt: skip
    """A law made of another: what holds for the formula of the base alone goes."""
    plain = {
        field: getattr(Law, field)
        for field in (
            "linear", "chart", "requirements", "with_floor", "continual_alone", "power_law_terms",
            "scale_free",
        )
    }  # fmt: skip
    made = Derived(function, maker, made_of)
    return dataclasses.replace(base, name=name, function=made, **(plain | changes))


#: Pattern of a name that says how a law is made → what makes it of the package and the groups.
_MADE_BY_NAME: dict[str, Callable[..., Law]] = {
    r"beyond\((.+)\)": lambda laws, base: laws.beyond(base),
    r"(.+)\[([^\[\]]+) of ([^\[\]]+)\]": lambda laws, base, own, labels: laws.grouped(
        base, labels.split("|"), own.split(",")
    ),
    r"mixing\[([^\[\]]+)\]": lambda laws, shares: laws.mixing(shares.split("|")),
    r"additive(-of-shares)?\[([^\[\]]+)\]": lambda laws, alone, shares: laws.additive(
        shares.split("|"), scale=not alone
    ),
    r"tuned-(lr-|batch-)?(.+)": lambda laws, only, base: laws.tuned(
        base, [only.rstrip("-")] if only else ("lr", "batch")
    ),
    r"routed-(.+)": lambda laws, base: laws.routed(base),
    r"continual(?:-(additive))?\[([^;\[\]]+);([^;\[\]]+)(?:;(?!lr\])([^;\[\]]+))?(?:;(lr))?\]": (
        lambda laws, family, base, *of: laws.continual(
            base.split(","), *of, family or "interaction"
        )
    ),
}

_REGISTRY: dict[str, Law] = {}
_BUILT_IN: dict[str, Law] = {}
# Token → a law that was pickled whole: it comes back as the same object, and has its programs.
_WHOLE: dict[str, Law] = {}


@overload
def law(function: Callable[..., Array], /) -> Law: ...
@overload
def law(
    *,
    name: str | None = None,
    inputs: Mapping[str, Input] | None = None,
    replace: bool = False,
    **details: Any,
) -> Callable[[Callable[..., Array]], Law]: ...
def law(
    function: Callable[..., Array] | None = None,
    /,
    *,
    name: str | None = None,
    inputs: Mapping[str, Input] | None = None,
    replace: bool = False,
    **details: Any,
) -> Any:
    """Make a law of a function and register it under its name.

    Args:
        function: ``f(N, D, *, E=positive(), …)``: inputs first, parameters after the
            star, each with its :class:`Parameter` (``positive``, ``exponent``, ``real``)
            as default. It is called with arrays and must be pure, elementwise JAX.
        name: its name; by default that of the function.
        inputs: specifications of inputs that jaxlaw does not know by name, or in another
            unit (``{"N": billions("N")}``).
        replace: permission to take a name that another law has. The same function of the same
            module, such as the cell of a notebook run again, needs none. What jaxlaw itself
            computes with a built-in law, such as :func:`jaxlaw.published`, keeps that law.
        **details: other attributes of :class:`Law`.

    Returns:
        The :class:`Law`.

    Raises:
        UsageError: a parameter without a specification, no inputs, or a name that another law
            has.

    Example:
        >>> from jaxlaw.laws import exponent, positive, power
        >>> @jl.law
        ... def halving(N, *, E=positive(0.5, 3), A=positive(0.1, 10), alpha=exponent()):
        ...     return E + A * power(N, -alpha)
        >>> halving.name, halving.input_names, halving.linear_parameters
        ('halving', ('N',), ('E', 'A'))
    """
    if function is None:
        return lambda actual: law(actual, name=name, inputs=inputs, replace=replace, **details)
    known = INPUTS | dict(inputs or {})
    specs, parameters = [], []
    for argument in inspect.signature(function).parameters.values():
        if argument.kind is not argument.KEYWORD_ONLY:
            specs.append(known.get(argument.name, Input(argument.name)))
        elif isinstance(argument.default, Parameter):
            parameters.append(dataclasses.replace(argument.default, name=argument.name))
        else:
            raise UsageError(
                f"parameter '{argument.name}' of law {function.__name__} has no specification; "
                "write it as a default, for example "
                f"{argument.name}=jl.laws.positive(0.1, 10)"
            )
    if not specs or not parameters:
        raise UsageError(
            f"law {function.__name__} needs inputs before the '*' and parameters after it"
        )
    details.setdefault("formula", (function.__doc__ or "").strip().split("\n")[0])
    name = name or function.__name__.replace("_", "-")
    return add_law(Law(name, function, tuple(specs), tuple(parameters), **details), replace)


def add_law(made: Law, replace: bool = False) -> Law:
    """Register a law under its name; another law's is refused, unless it is to be replaced."""
    registered = _REGISTRY.get(made.name)
    # The same function of the same module may come again.
    if registered is not None and not replace and _origin(registered) != _origin(made):
        whose = "a built-in law" if registered is _BUILT_IN.get(made.name) else "another law"
        raise UsageError(
            f"the name '{made.name}' is that of {whose}, defined as "
            f"{'.'.join(_origin(registered))}: "
            "give yours another one (name=), or pass replace=True to have the name mean yours"
        )
    for variant in [key for key in _REGISTRY if key.startswith(f"{made.name}:")]:
        del _REGISTRY[variant]  # of the law that had the name
    _REGISTRY[made.name] = made
    return made


def _origin(law: Law) -> tuple[str, str]:
    """Module and name of the function that a law was made of."""
    function = law.function
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return getattr(function, "__module__", None) or "?", name.removesuffix(".function")


def _rebuild_law(token: str, fields: dict) -> Law:
    """A law that was pickled whole; the same object every time."""
    return _WHOLE.get(token) or _WHOLE.setdefault(token, Law(**fields))


def keep_as_built_in() -> None:
    """Take the laws registered so far for those that jaxlaw brings itself."""
    _BUILT_IN.update(_REGISTRY)


def built_in(name: str) -> Law:
    """The law that jaxlaw brings under this name, whatever the name means to :func:`get` now.

    Names that say how a law is made, such as ``tuned-skaling``, are those of laws too.

    Raises:
        KeyError: jaxlaw brings none.

    Example:
        >>> jl.laws.built_in("chinchilla").source.split(",")[0]
        'Hoffmann 2022'
    """
    made = _BUILT_IN.get(name) or _derive_by_name(name)
    if made is None:
        raise KeyError(name)
    return made


def _derive_by_name(name: str) -> Law | None:
    """The law that a name such as ``chinchilla[E of c4|pile]`` describes; None if it is none."""
    for pattern, maker in _MADE_BY_NAME.items():
        if match := re.fullmatch(pattern, name):
            return maker(importlib.import_module("jaxlaw.laws"), *match.groups())
    return None


def get(name: str | Law, constraint: str | None = None) -> Law:
    """The law of that name.

    Args:
        name: a registered name, or a law, returned as it is.
        constraint: the variant that meets this constraint by construction; the D-CPT law
            (``dcpt``) has ``"paper"`` and ``"observed"``.

    Raises:
        UsageError: no such law, or it has no such constraint.

    Example:
        >>> jl.laws.get("chinchilla").parameter_names
        ('E', 'A', 'B', 'alpha', 'beta')
    """
    if isinstance(name, Law) and constraint is None:
        return name
    base = name.name if isinstance(name, Law) else name
    if not isinstance(base, str):
        raise UsageError(f"a law is given by its name, or as a Law, not as {type(name).__name__}")
    if base not in _REGISTRY:
        if constraint is None and (made := _derive_by_name(base)) is not None:
            return made
        # Where one was surely meant, a list of forty would only hide it.
        meant = nearest(base, names()) or f" Laws: {', '.join(names())}."
        raise UsageError(f"there is no law '{base}'.{meant}")
    variant = base if constraint is None else f"{base}:{constraint}"
    if variant not in _REGISTRY:
        offered = [key.split(":")[1] for key in _REGISTRY if key.startswith(f"{base}:")]
        raise UsageError(
            f"law {base} has no constraint '{constraint}'; it has {listed(offered) or 'none'}."
            f"{nearest(constraint, offered)}"
        )
    return _REGISTRY[variant]


def _read_law(value, where: str) -> Law:
    """The law that a file names (:meth:`Law.to_json`).

    Raises:
        TypeError: it is no name.
        NotHereError: this process has no such law.
    """
    if not isinstance(value, str):
        raise TypeError(f"field '{where}' is no name of a law")
    try:
        return _REGISTRY.get(value) or get(value)
    except UsageError:
        raise NotHereError(
            f"there is no law '{value}' in this process.{nearest(value, names())} Import the "
            "module that defines it first; a command runs it by --law-file FILE.py."
        ) from None


READERS[Law] = _read_law


def constrained(base: Law, constraint: Constraint, **changes: Parameter) -> None:
    """Register the variant of a law that meets a constraint by construction.

    Args:
        base: the law.
        constraint: the constraint.
        **changes: parameters whose specification differs in the variant.
    """
    parameters = tuple(
        dataclasses.replace(changes.get(spec.name, spec), name=spec.name)
        for spec in base.parameters
    )
    variant = dataclasses.replace(base, parameters=parameters, constraint=constraint)
    _REGISTRY[f"{base.name}:{constraint.name}"] = variant


def names() -> list[str]:
    """Names of all registered laws, without their constrained variants.

    Example:
        >>> "dcpt" in jl.laws.names()
        True
    """
    return sorted(name for name in _REGISTRY if ":" not in name)


@compiled(static_argnames="law")
def _program(law: Law, params: dict, inputs: dict) -> Array:
    return law(params, **inputs)


@traced_once()  # laws and their derivatives call it often
def power(base: Any, exponent: Any) -> Array:
    """``base ** exponent`` for ``base`` ≥ 0, with values and derivatives that are never NaN.

    ``0 ** y`` is 0, 1 or 1e30 (for infinity, which would turn gradients into NaN) as y is
    positive, zero or negative, and its derivatives are taken as 0. Where the base is data,
    its logarithm is computed once for all lanes.

    Example:
        >>> jl.laws.power(np.array([0.0, 4.0]), 0.5).tolist()
        [0.0, 2.0]
    """
    base, exponent = jnp.asarray(base), jnp.asarray(exponent)
    at_zero = base <= 0
    log_base = jnp.log(jnp.where(at_zero, 1.0, base))
    limit = jnp.where(exponent > 0, 0.0, jnp.where(exponent < 0, 1e30, 1.0))
    return jnp.where(at_zero, limit, jnp.exp(exponent * log_base))
